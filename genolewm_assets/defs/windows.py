"""``windows/index``: the reference windows of each linear contig."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import dagster as dg
import pyarrow.compute as pc
import pyarrow.parquet as pq

from genolewm_assets.defs.automation import AUTOMATED
from genolewm_assets.defs.failure_hook import report_failure
from genolewm_assets.defs.gates import GatedAsset, GatedEvents
from genolewm_assets.defs.metadata import OWNERS, asset_tags, definition_metadata, describe_published, plotted, share
from genolewm_assets.defs.partitions import linear_contig_partitions, on_every_partition
from genolewm_assets.defs.resources import WorkspaceResource
from genolewm_assets.defs.workspace import Workspace, reference_reader
from genolewm_assets.genome import ContigSet, IntervalArray
from genolewm_assets.lewm.window_checks import WINDOW_CHECKS, check_window_table
from genolewm_assets.lewm.window_index import build_window_table, coverage_counts
from genolewm_assets.lewm.window_schema import WINDOWS
from genolewm_assets.sources.bed import read_bed_track
from genolewm_assets.sources.source_file import SourceFile
from genolewm_assets.store import ArtefactId, BuildPlan, BuildReport, Progress, Published
from genolewm_assets.store.parquet import write_table

CODE_VERSION = "1"


def plan_windows(workspace: Workspace, contig_name: str | None, progress: Progress) -> BuildPlan:
    """Plan the window index of one contig."""
    contig, profile = workspace.contigs[str(contig_name)], workspace.catalog.window_profile
    genome = workspace.open_input("reference/genome")
    urls = workspace.catalog.genome.tracks.urls
    tracks = {name: workspace.source(url, progress=progress) for name, url in urls.items()}
    artefact = ArtefactId("windows/index", contig.name)

    def write(work: Path) -> BuildReport:
        sequence = reference_reader(genome, workspace.contigs)(contig)
        intervals = _read_tracks(tracks, workspace.contigs, contig.name)
        table = build_window_table(contig, sequence, profile, intervals, progress=progress)
        write_table([table], work / "windows.parquet", WINDOWS)
        written = pq.read_table(work / "windows.parquet")
        return BuildReport(
            counts=coverage_counts(written, sequence, profile),
            rows={"windows.parquet": written.num_rows},
            checks=check_window_table(written, sequence, profile),
        )

    return BuildPlan(
        artefact=artefact,
        location=workspace.location(artefact),
        code_version=CODE_VERSION,
        recipe={"profile": asdict(profile), "tracks": {name: track.identity() for name, track in tracks.items()}},
        inputs=(genome.ref,),
        write=write,
    )


def _read_tracks(tracks: Mapping[str, SourceFile], contigs: ContigSet, contig: str) -> dict[str, IntervalArray]:
    """Read each BED track's intervals on a contig."""
    intervals = {}
    for name, track in tracks.items():
        with track.local() as local:
            intervals[name] = read_bed_track(local.path, contigs)[contig]
    return intervals


def describe_windows(published: Published) -> dict[str, dg.MetadataValue]:
    """Show rows, coverage counts, and which stretches of the contig lie in windows."""
    from genolewm_assets.defs.pictures import draw_coverage

    table = pq.read_table(published.file("windows.parquet"), columns=["start", "end", "gc"])
    windows, counts = IntervalArray(table["start"].to_numpy(), table["end"].to_numpy()), published.manifest.counts
    return {
        **describe_published(published, rows=table.num_rows),
        **plotted(
            acgt_share_in_windows=share(counts["bases_in_windows"], counts["acgt_bases"]),
            mean_gc=pc.mean(table["gc"]).as_py(),
        ),
        "coverage_along_contig": draw_coverage(windows, contig=str(published.artefact.partition)),
    }


INDEX = GatedAsset(key="windows/index", checks=WINDOW_CHECKS, plan=plan_windows, describe=describe_windows)


@dg.asset(
    key=["windows", "index"],
    deps=[on_every_partition("reference/genome")],
    partitions_def=linear_contig_partitions,
    automation_condition=AUTOMATED,
    group_name="windows",
    code_version=CODE_VERSION,
    check_specs=INDEX.check_specs(linear_contig_partitions),
    metadata=definition_metadata("windows/index", WINDOWS),
    owners=OWNERS,
    tags=asset_tags("contig"),
    hooks={report_failure},
    kinds={"parquet", "numpy"},
)
def windows_index(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> GatedEvents:
    """One row per reference window of a contig: coordinates, hash, composition and strata.

    A window is the unit that the language model encodes and that holdouts take out; row i here is row i of its cache.
    """
    yield from INDEX.run(context, workspace.open())
