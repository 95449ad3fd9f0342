"""``holdouts/manifest``: what never reaches training, for one ClinVar release."""

from pathlib import Path

import dagster as dg
import pyarrow.parquet as pq

from genolewm_assets.defs.gates import AUTOMATED, GatedAsset, GatedEvents
from genolewm_assets.defs.metadata import OWNERS, definition_metadata, describe_published
from genolewm_assets.defs.partitions import clinvar_release_partitions, on_every_partition, on_same_key
from genolewm_assets.defs.release_inputs import ReleaseInputs, holdout_policy
from genolewm_assets.defs.resources import WorkspaceResource
from genolewm_assets.defs.workspace import Workspace
from genolewm_assets.lewm.holdout_checks import HOLDOUT_CHECKS, check_holdouts
from genolewm_assets.lewm.holdout_schema import HOLDOUT_ALLELES, HOLDOUT_CORPUS, HOLDOUT_INTERVALS
from genolewm_assets.lewm.holdouts import HoldoutInputs, build_holdouts
from genolewm_assets.sources.shard_file import write_shard_file
from genolewm_assets.store import ArtefactId, BuildPlan, BuildReport, Progress, Published

CODE_VERSION = "1"


def plan_holdouts(workspace: Workspace, release: str | None, _progress: Progress) -> BuildPlan:
    """Plan the holdouts of one release."""
    inputs, policy = ReleaseInputs.open(workspace, str(release)), holdout_policy(workspace, str(release))

    def write(work: Path) -> BuildReport:
        given = HoldoutInputs(
            contigs=workspace.contigs,
            genome=pq.read_table(inputs.genome.file("contigs.parquet")),
            windows=inputs.window_tables(),
            gnomad=inputs.gnomad_tables(),
            clinvar=inputs.clinvar_tables(),
            clinvar_earlier=inputs.earlier_tables(),
            corpus=inputs.corpus_placements(),
            profile=workspace.catalog.window_profile,
        )
        held = build_holdouts(given, policy)
        rows = {
            f"{noun}.parquet": write_shard_file([table], work / f"{noun}.parquet", schema)
            for noun, table, schema in (
                ("intervals", held.intervals, HOLDOUT_INTERVALS),
                ("alleles", held.alleles, HOLDOUT_ALLELES),
                ("corpus", held.corpus, HOLDOUT_CORPUS),
            )
        }
        return BuildReport(counts=held.counts, rows=rows, checks=check_holdouts(held, given, policy))

    artefact = ArtefactId("holdouts/manifest", release)
    return BuildPlan(
        artefact=artefact,
        location=workspace.location(artefact),
        code_version=CODE_VERSION,
        recipe={"policy": policy.as_recipe()},
        inputs=tuple(each.ref for each in inputs.published),
        write=write,
    )


def describe_holdouts(published: Published) -> dict[str, dg.MetadataValue]:
    """Show rows, and the share of windows that each holdout removes."""
    rows = sum(entry.rows or 0 for entry in published.manifest.files)
    return describe_published(published, rows=rows)


MANIFEST = GatedAsset(key="holdouts/manifest", checks=HOLDOUT_CHECKS, plan=plan_holdouts, describe=describe_holdouts)


@dg.asset(
    key=["holdouts", "manifest"],
    deps=[
        on_every_partition("reference/genome"),
        on_every_partition("gnomad/shard"),
        on_same_key("clinvar/shard"),
        on_every_partition("windows/index"),
        on_every_partition("corpus/windows"),
    ],
    partitions_def=clinvar_release_partitions,
    automation_condition=AUTOMATED,
    group_name="holdouts",
    code_version=CODE_VERSION,
    check_specs=MANIFEST.check_specs(clinvar_release_partitions),
    metadata=definition_metadata(HOLDOUT_INTERVALS),
    owners=OWNERS,
    kinds={"parquet"},
)
def holdouts_manifest(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> GatedEvents:
    """One row per interval, allele or corpus window that training must not see, with the holdout and the reason.

    A score on held-out data means something only if no spelling, neighbour or copy of it was trained on; these tables
    are what the package's filter and its audit go by.
    """
    yield from MANIFEST.run(context, workspace.open())
