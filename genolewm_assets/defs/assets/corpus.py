"""``corpus/windows``: windows of the pretraining corpus, one partition per corpus source."""

from pathlib import Path

import dagster as dg

from genolewm_assets.defs.assets.observations import corpus_files, corpus_source
from genolewm_assets.defs.assets.reference import reference_genome
from genolewm_assets.defs.display import describe_published, plotted, share
from genolewm_assets.defs.runtime import AUTOMATED, BY_CORPUS_SOURCE, GatedAsset, Plan, Workspace, on_every_partition
from genolewm_assets.progress import Progress
from genolewm_assets.sources.corpus import (
    PART_BP,
    GenomeSlices,
    MappyAligner,
    audit_corpus_windows,
    needs_parts,
    write_corpus_windows,
)
from genolewm_assets.store.artefacts import DERIVED, BuildReport, DerivedFiles, Published
from genolewm_assets.store.files import JsonValue
from genolewm_assets.windows.corpus import (
    CORPUS_CHECKS,
    CORPUS_WINDOWS,
    FAULTS,
    CorpusPlacer,
    CorpusSource,
    PlacementHow,
)


def plan_corpus_windows(workspace: Workspace, source_name: str, progress: Progress) -> Plan:
    """Plan the windows of one corpus source."""
    settings, source = workspace.catalog.corpus, CorpusSource(source_name)
    genome = reference_genome.open(workspace)
    files = corpus_files(workspace, source, progress)
    revision = settings.sources[source].revision
    params = settings.params(workspace.catalog.window_profile)

    def write(work: Path) -> BuildReport:
        derived = DerivedFiles(workspace.root.path / DERIVED / genome.manifest.sha256[:12])
        slices = GenomeSlices(genome.file("genome.fa.gz"), workspace.contigs, derived)
        placer = CorpusPlacer(workspace.contigs, slices, MappyAligner(slices, spliced=source.is_transcribed))
        with workspace.borrow(files) as paths:
            report = write_corpus_windows(
                paths, source=source, params=params, placer=placer, out_dir=work, progress=progress
            )
            checks = audit_corpus_windows(
                work, paths, source=source, params=params, placer=placer, counts=report.counts, progress=progress
            )
        return BuildReport(counts=report.counts, rows=report.rows, checks=checks)

    stated: dict[str, JsonValue] = {"revision": revision} if revision else {}
    if needs_parts(genome.file("genome.fa.gz.fai")):
        stated["aligner_part_bp"] = PART_BP
    return Plan(
        recipe={"params": params.as_recipe(), "sources": [file.identity() for file in files], **stated},
        inputs=(genome,),
        write=write,
    )


def describe_corpus_windows(published: Published) -> dict[str, dg.MetadataValue]:
    """Return the metadata of corpus windows: rows, records and bases used, and windows by kind of placement."""
    from genolewm_assets.defs.display import draw_placements

    counts = published.manifest.counts
    placed = {str(how): counts[f"placed.{how}"] for how in PlacementHow}
    return {
        **describe_published(published, rows=counts["windows"], stated=("windows", "records_used")),
        **plotted(
            records_used=counts["records_used"],
            faulty_share=share(sum(counts[f"skipped.{fault}"] for fault in FAULTS), counts["records_in"]),
            base_share_in_windows=share(counts["bases_in_windows"], counts["bases_in"]),
            maybe_human_share=share(counts["maybe_human"], counts["windows"]),
            placed_share=share(counts["windows"] - placed[PlacementHow.NONE], counts["windows"]),
        ),
        "placements": draw_placements(placed, source=str(published.artefact.partition)),
    }


corpus_windows = GatedAsset(
    key="corpus/windows",
    description="""
    One row per window of the pretraining corpus, with its placement on the reference if one was found.

    The encoder was trained on these sequences, so its states are most reliable here. The placement decides which
    windows the holdouts exclude from training; what a record states of itself counts only where the bases agree.
    """,
    kinds={"parquet", "minimap2"},
    code_version="5",
    place=lambda _, source: f"corpus/{source}",
    deps=(on_every_partition(reference_genome), on_every_partition(corpus_source)),
    partitions=BY_CORPUS_SOURCE,
    automation=AUTOMATED,
    table=CORPUS_WINDOWS,
    checks=CORPUS_CHECKS,
    plan=plan_corpus_windows,
    entries={
        "records_used": "records of the source of which there are windows",
        "faulty_share": "share of the rows of the source that are at fault, 0 to 1; counts has the reasons",
        "base_share_in_windows": "share of the bases of all records that windows cover, 0 to 1",
        "maybe_human_share": "share of the windows whose record may be human, 0 to 1",
        "placed_share": "share of the windows with a place on the reference, 0 to 1",
        "placements": "windows by how they were placed",
    },
    describe=describe_corpus_windows,
    pictured=True,
)
