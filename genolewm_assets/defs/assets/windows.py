"""``windows/index``: the reference windows, one partition per linear contig."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import dagster as dg
import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from genolewm_assets.defs.assets.reference import reference_genome
from genolewm_assets.defs.display import describe_published, plotted, share
from genolewm_assets.defs.runtime import (
    AUTOMATED,
    BY_LINEAR_CONTIG,
    GatedAsset,
    Plan,
    Workspace,
    on_every_partition,
    reference_opener,
)
from genolewm_assets.errors import GenoLeWMError
from genolewm_assets.genome import ContigSet, IntervalArray
from genolewm_assets.progress import Progress
from genolewm_assets.sources.files import SourceFile
from genolewm_assets.sources.reference import read_bed_track
from genolewm_assets.store.artefacts import BuildPlan, BuildReport, Published
from genolewm_assets.store.tables import read_table
from genolewm_assets.windows.bases import write_bases, write_window_table
from genolewm_assets.windows.reference import (
    WINDOW_CHECKS,
    WINDOWS,
    build_window_table,
    check_window_table,
    coverage_counts,
    with_bases,
)


def plan_windows(workspace: Workspace, contig_name: str, progress: Progress) -> Plan:
    """Plan the window index of one contig."""
    contig, profile = workspace.contigs[contig_name], workspace.catalog.window_profile
    genome = reference_genome.open(workspace)
    urls = workspace.catalog.genome.tracks.urls
    tracks = {name: workspace.source(url, progress=progress) for name, url in urls.items()}

    def write(work: Path) -> BuildReport:
        sequence = reference_opener(genome, workspace.contigs)(contig)
        intervals = _read_tracks(tracks, workspace.contigs, contig.name)
        table = build_window_table(contig, sequence, profile, intervals, progress=progress)
        path = work / "windows.parquet"
        rows = write_window_table(path, WINDOWS, with_bases(table, sequence, margin_bp=profile.margin_bp))
        write_bases(path)
        written = read_table(path, columns=["start", "end"])
        return BuildReport(
            counts=coverage_counts(written, sequence, profile),
            rows={path.name: rows},
            checks=check_window_table(path, sequence, profile),
        )

    return Plan(
        recipe={"profile": asdict(profile), "tracks": {name: track.identity() for name, track in tracks.items()}},
        inputs=(genome,),
        write=write,
    )


def _read_tracks(tracks: Mapping[str, SourceFile], contigs: ContigSet, contig: str) -> dict[str, IntervalArray]:
    """Return the intervals of each BED track on a contig, by track."""
    intervals = {}
    for name, track in tracks.items():
        with track.local() as local:
            intervals[name] = read_bed_track(local.path, contigs)[contig]
    return intervals


def describe_windows(published: Published) -> dict[str, dg.MetadataValue]:
    """Return the metadata of windows: rows, counts, and the coverage along the contig."""
    from genolewm_assets.defs.display import draw_coverage

    table = read_table(published.file("windows.parquet"), columns=["start", "end", "gc"])
    windows, counts = IntervalArray(table["start"].to_numpy(), table["end"].to_numpy()), published.manifest.counts
    return {
        **describe_published(published, rows=table.num_rows, stated=("windows",)),
        **plotted(
            acgt_share_in_windows=share(counts["bases_in_windows"], counts["acgt_bases"]),
            mean_gc=pc.mean(table["gc"]).as_py(),
        ),
        "coverage_along_contig": draw_coverage(windows, contig=str(published.artefact.partition)),
    }


def compare_contigs(workspace: Workspace, _plan: BuildPlan, _published: Published) -> dict[str, dg.MetadataValue]:
    """Return pictures of the composition and the coverage of all contigs that are published, side by side."""
    from genolewm_assets.defs.display import draw_by_contig, draw_coverages

    gc: dict[str, npt.NDArray[np.float64] | None] = {contig.name: None for contig in workspace.contigs.linear}
    spans: dict[str, IntervalArray | None] = dict.fromkeys(gc)
    for contig in gc:
        with suppress(GenoLeWMError):
            opened = windows_index.open(workspace, contig, contents="sizes")
            table = read_table(opened.file("windows.parquet"), columns=["start", "end", "gc"])
            gc[contig] = table["gc"].to_numpy()
            spans[contig] = IntervalArray(table["start"].to_numpy(), table["end"].to_numpy())
    return {
        "gc_by_contig": draw_by_contig(gc, title="Share of G and C of windows", limits=(0.2, 0.8)),
        "coverage_by_contig": draw_coverages(spans, title="Share in windows"),
    }


windows_index = GatedAsset(
    key="windows/index",
    description="""
    One row per reference window of a contig: coordinates, hash, composition and strata.

    The language model encodes whole windows, and holdouts exclude whole windows. Row i belongs to row i of
    `embeddings/cache`.
    """,
    kinds={"parquet", "numpy"},
    code_version="3",
    place=lambda workspace, contig: f"windows/{workspace.catalog.window_profile.name}/{contig}",
    deps=(on_every_partition(reference_genome),),
    partitions=BY_LINEAR_CONTIG,
    automation=AUTOMATED,
    table=WINDOWS,
    checks=WINDOW_CHECKS,
    plan=plan_windows,
    entries={
        "acgt_share_in_windows": "share of the contig's A, C, G and T that windows cover, 0 to 1",
        "mean_gc": "mean share of G and C of a window, 0 to 1",
        "gc_by_contig": "how many windows of each published contig have which share of G and C",
        "coverage_by_contig, coverage_along_contig": "where windows lie, in each published contig and in this one",
    },
    describe=describe_windows,
    after=compare_contigs,
)
