"""``corpus/windows``: windows of the pretraining corpus, one partition per corpus source."""

from pathlib import Path

import dagster as dg
import pyarrow.parquet as pq

from genolewm_assets.defs.automation import AUTOMATED
from genolewm_assets.defs.failure_hook import report_failure
from genolewm_assets.defs.gates import GatedAsset, GatedEvents
from genolewm_assets.defs.metadata import OWNERS, asset_tags, definition_metadata, describe_published, plotted, share
from genolewm_assets.defs.partitions import corpus_source_partitions, on_every_partition
from genolewm_assets.defs.resources import WorkspaceResource
from genolewm_assets.defs.workspace import Workspace
from genolewm_assets.lewm.corpus_checks import CORPUS_CHECKS
from genolewm_assets.lewm.corpus_placement import CorpusPlacer, PlacementHow
from genolewm_assets.lewm.corpus_records import CorpusSource
from genolewm_assets.lewm.corpus_windows import CORPUS_WINDOWS
from genolewm_assets.sources.carbon_corpus import audit_corpus_windows, list_corpus_files, write_corpus_windows
from genolewm_assets.sources.placement import GenomeSlices, MappyAligner
from genolewm_assets.store import ArtefactId, BuildPlan, BuildReport, Progress, Published

CODE_VERSION = "1"


def plan_corpus_windows(workspace: Workspace, source_name: str | None, progress: Progress) -> BuildPlan:
    """Plan the windows of one corpus source."""
    settings, source = workspace.catalog.corpus, CorpusSource(str(source_name))
    genome = workspace.open_input("reference/genome")
    urls = list_corpus_files(workspace.url(settings.sources[source].url))
    files = [workspace.source(url, progress=progress) for url in urls]
    params = settings.params(workspace.catalog.window_profile)

    def write(work: Path) -> BuildReport:
        slices = GenomeSlices(genome.file("genome.fa.gz"), workspace.contigs)
        placer = CorpusPlacer(workspace.contigs, slices, MappyAligner(slices, spliced=source.is_transcribed))
        with workspace.borrow(files) as paths:
            report = write_corpus_windows(
                paths, source=source, params=params, placer=placer, out_dir=work, progress=progress
            )
            checks = audit_corpus_windows(
                work, paths, source=source, params=params, placer=placer, counts=report.counts, progress=progress
            )
        return BuildReport(counts=report.counts, rows=report.rows, checks=checks)

    artefact = ArtefactId("corpus/windows", source.value)
    return BuildPlan(
        artefact=artefact,
        location=workspace.location(artefact),
        code_version=CODE_VERSION,
        recipe={"params": params.as_recipe(), "sources": [file.identity() for file in files]},
        inputs=(genome.ref,),
        write=write,
    )


def describe_corpus_windows(published: Published) -> dict[str, dg.MetadataValue]:
    """Show rows, the yield (what was used, what was lost and why), and how the windows were placed."""
    from genolewm_assets.defs.pictures import draw_placements

    counts = published.manifest.counts
    placed = {str(how): counts[f"placed.{how}"] for how in PlacementHow}
    return {
        **describe_published(published, rows=pq.read_metadata(published.file("windows.parquet")).num_rows),
        **plotted(
            records_used=counts["records_used"],
            base_share_in_windows=share(counts["bases_in_windows"], counts["bases_in"]),
            placed_share=share(counts["windows"] - placed[PlacementHow.NONE], counts["windows"]),
        ),
        "placements": draw_placements(placed, source=str(published.artefact.partition)),
    }


WINDOWS = GatedAsset(
    key="corpus/windows", checks=CORPUS_CHECKS, plan=plan_corpus_windows, describe=describe_corpus_windows
)


@dg.asset(
    key=["corpus", "windows"],
    deps=[on_every_partition("reference/genome")],
    partitions_def=corpus_source_partitions,
    automation_condition=AUTOMATED,
    group_name="corpus",
    code_version=CODE_VERSION,
    check_specs=WINDOWS.check_specs(corpus_source_partitions),
    metadata=definition_metadata("corpus/windows", CORPUS_WINDOWS),
    owners=OWNERS,
    tags=asset_tags("corpus_source"),
    hooks={report_failure},
    kinds={"parquet", "minimap2"},
)
def corpus_windows(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> GatedEvents:
    """One row per window of the pretraining corpus, with its place on the reference where it has one.

    The encoder was trained on these sequences, so its states are surest here; the place says which of them a holdout
    must take out.
    """
    yield from WINDOWS.run(context, workspace.open())
