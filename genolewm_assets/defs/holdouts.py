"""``holdouts/manifest``: what never reaches training, for one ClinVar release."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq

from genolewm_assets.defs.automation import REBUILT
from genolewm_assets.defs.failure_hook import report_failure
from genolewm_assets.defs.gates import GatedAsset, GatedEvents
from genolewm_assets.defs.metadata import OWNERS, asset_tags, definition_metadata, describe_published, plotted, share
from genolewm_assets.defs.partitions import clinvar_release_partitions, on_every_partition, on_same_key
from genolewm_assets.defs.release_inputs import ReleaseInputs, holdout_policy
from genolewm_assets.defs.resources import WorkspaceResource
from genolewm_assets.defs.workspace import Workspace
from genolewm_assets.genome import EVALUATION
from genolewm_assets.lewm.holdout_checks import HOLDOUT_CHECKS, check_holdouts
from genolewm_assets.lewm.holdout_schema import (
    HOLDOUT_ALLELES,
    HOLDOUT_CORPUS,
    HOLDOUT_INTERVALS,
    CorpusReason,
    Holdout,
)
from genolewm_assets.lewm.holdouts import HoldoutInputs, build_holdouts
from genolewm_assets.store import ArtefactId, BuildPlan, BuildReport, Progress, Published
from genolewm_assets.store.parquet import write_table

CODE_VERSION = "1"

#: A corpus window is kept from training and serves neither role.
_NO_ROLE = "not trained on"


def plan_holdouts(workspace: Workspace, release: str | None, progress: Progress) -> BuildPlan:
    """Plan the holdouts of one release."""
    inputs = ReleaseInputs.open(workspace, str(release), progress=progress)
    policy = holdout_policy(workspace, inputs)

    def write(work: Path) -> BuildReport:
        given = HoldoutInputs(
            contigs=workspace.contigs,
            genome=pq.read_table(inputs.genome.file("contigs.parquet")),
            windows=inputs.window_tables(),
            gnomad=inputs.gnomad_tables(),
            clinvar=inputs.clinvar_tables(),
            clinvar_earlier=inputs.earlier_tables(),
            corpus=_counted(inputs, progress),
            profile=workspace.catalog.window_profile,
        )
        held = build_holdouts(given, policy)
        rows = {
            f"{noun}.parquet": write_table([table], work / f"{noun}.parquet", schema)
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


def _counted(inputs: ReleaseInputs, progress: Progress) -> Iterator[pa.Table]:
    """Yield the places of the corpus windows, and say how many of them have been compared."""
    total = sum(each.manifest.counts["windows"] for each in inputs.corpus.values())
    done = 0
    for table in inputs.corpus_placements():
        yield table
        progress.advance(done := done + table.num_rows, total, "corpus windows")


def describe_holdouts(published: Published) -> dict[str, dg.MetadataValue]:
    """Show rows, and what each holdout takes out of training."""
    from genolewm_assets.defs.pictures import PART_COLOURS, draw_composition

    counts = published.manifest.counts
    alleles = pq.read_table(published.file("alleles.parquet"), columns=["holdout", "role"])
    held = Counter(zip(*(alleles[name].to_pylist() for name in ("holdout", "role")), strict=True))
    panels: dict[str, dict[str, dict[str, int]]] = {
        "windows": {name: {role: counts[f"windows.{name}.{role}"] for role in EVALUATION} for name in Holdout},
        "alleles": {name: {role: held[name, role] for role in EVALUATION} for name in Holdout},
        "corpus windows": {name: {_NO_ROLE: _corpus_windows(counts, name)} for name in Holdout},
    }
    title = f"{counts['windows.held_out']:,} of {counts['windows']:,} reference windows leave training"
    return {
        **describe_published(published, rows=sum(entry.rows or 0 for entry in published.manifest.files)),
        **plotted(
            window_share_held_out=share(counts["windows.held_out"], counts["windows"]),
            corpus_share_held_out=share(counts["corpus_windows.held_out"], counts.get("corpus_windows", 0)),
            alleles_held_out=alleles.num_rows,
        ),
        "composition": draw_composition(
            panels, title=title, parts={part: PART_COLOURS[part] for part in (*EVALUATION, _NO_ROLE)}
        ),
    }


def _corpus_windows(counts: Mapping[str, int], holdout: Holdout) -> int:
    return sum(counts[f"corpus_windows.{holdout}.{reason}"] for reason in CorpusReason)


MANIFEST = GatedAsset(key="holdouts/manifest", checks=HOLDOUT_CHECKS, plan=plan_holdouts, describe=describe_holdouts)


@dg.asset(
    key=["holdouts", "manifest"],
    deps=[
        on_every_partition("reference/genome"),
        on_every_partition("gnomad/shard"),
        on_same_key("clinvar/shard"),
        on_same_key("clinvar/changes"),
        on_every_partition("windows/index"),
        on_every_partition("corpus/windows"),
    ],
    partitions_def=clinvar_release_partitions,
    automation_condition=REBUILT,
    group_name="holdouts",
    code_version=CODE_VERSION,
    check_specs=MANIFEST.check_specs(clinvar_release_partitions),
    metadata=definition_metadata(
        "holdouts/manifest", intervals=HOLDOUT_INTERVALS, alleles=HOLDOUT_ALLELES, corpus=HOLDOUT_CORPUS
    ),
    owners=OWNERS,
    tags=asset_tags("clinvar_release"),
    hooks={report_failure},
    kinds={"parquet"},
)
def holdouts_manifest(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> GatedEvents:
    """One row per interval, allele or corpus window that training must not see, with the holdout and the reason.

    A score on held-out data means something only if no spelling, neighbour or copy of it was trained on; these tables
    are what the package's filter and its audit go by.
    """
    yield from MANIFEST.run(context, workspace.open())
