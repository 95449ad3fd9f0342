"""``reference/genome``: the pinned FASTA of the catalogue, indexed and compared with its pins."""

from pathlib import Path

import dagster as dg
import pyarrow.parquet as pq

from genolewm_assets.defs.automation import REBUILT
from genolewm_assets.defs.failure_hook import report_failure
from genolewm_assets.defs.gates import GatedAsset, GatedEvents
from genolewm_assets.defs.metadata import OWNERS, asset_tags, definition_metadata, describe_published, plotted, share
from genolewm_assets.defs.partitions import on_every_partition
from genolewm_assets.defs.resources import WorkspaceResource
from genolewm_assets.defs.workspace import Workspace
from genolewm_assets.lewm.window_schema import GENOME_CONTIGS
from genolewm_assets.sources.fasta import compare_contigs, prepare_genome
from genolewm_assets.store import ArtefactId, BuildPlan, BuildReport, CheckResult, Progress, Published

CODE_VERSION = "1"


def plan_genome(workspace: Workspace, _partition: str | None, progress: Progress) -> BuildPlan:
    """Plan the copy, index and measurement of the catalogue's FASTA."""
    genome, contigs = workspace.catalog.genome, workspace.contigs
    source = workspace.source(genome.fasta, md5=genome.md5, progress=progress)

    def write(work: Path) -> BuildReport:
        with source.local() as local:
            table = prepare_genome(local.path, work, contigs, progress=progress)
        differences = compare_contigs(table, contigs)
        pinned = CheckResult(
            "contigs_match_pins", passed=not differences, figures={"differences": "; ".join(differences)}
        )
        return BuildReport(
            counts={
                "contigs": table.num_rows,
                "bases": sum(table["length"].to_pylist()),
                "acgt_bases": sum(table["acgt_bases"].to_pylist()),
            },
            rows={"contigs.parquet": table.num_rows},
            checks=(local.checksum_check(), pinned),
        )

    artefact = ArtefactId("reference/genome", None)
    return BuildPlan(
        artefact=artefact,
        location=workspace.location(artefact),
        code_version=CODE_VERSION,
        recipe={"genome_digest": workspace.catalog.genome_digest, "source": source.identity()},
        inputs=(),
        write=write,
    )


def describe_genome(published: Published) -> dict[str, dg.MetadataValue]:
    """Show the contigs as a table."""
    table, counts = pq.read_table(published.file("contigs.parquet")), published.manifest.counts
    return {
        **describe_published(published, rows=table.num_rows),
        **plotted(bases=counts["bases"], acgt_share=share(counts["acgt_bases"], counts["bases"])),
        "contigs": dg.MetadataValue.table([dg.TableRecord(row) for row in table.to_pylist()]),
    }


GENOME = GatedAsset(
    key="reference/genome",
    checks=("checksum_matches_published", "contigs_match_pins"),
    plan=plan_genome,
    describe=describe_genome,
)


@dg.asset(
    key=["reference", "genome"],
    deps=[on_every_partition("reference/source")],
    automation_condition=REBUILT,
    group_name="reference",
    code_version=CODE_VERSION,
    check_specs=GENOME.check_specs(),
    metadata=definition_metadata("reference/genome", GENOME_CONTIGS),
    owners=OWNERS,
    tags=asset_tags(None),
    hooks={report_failure},
    kinds={"fasta", "pysam"},
)
def reference_genome(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> GatedEvents:
    """One row per contig of the pinned reference genome, beside its block-compressed, indexed FASTA.

    Every coordinate and every REF of this platform refers to these bases; a FASTA whose contig lengths or MD5s differ
    from the catalogue's pins is refused.
    """
    yield from GENOME.run(context, workspace.open())
