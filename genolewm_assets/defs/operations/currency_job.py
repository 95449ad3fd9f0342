"""``check_current``: compares what is published with what a build of now would be made from, and with the listing."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import dagster as dg

# Type by which an evaluation refers to its materialisation; it is not among Dagster's top-level names.
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationTargetMaterializationData

from genolewm_assets.defs.assets import PUBLISHING
from genolewm_assets.defs.display import check_page
from genolewm_assets.defs.engines import cpu_op_tags
from genolewm_assets.defs.runtime import (
    BUILT_FROM_CURRENT_INPUTS,
    NEWEST_RELEASE_BUILT,
    Currency,
    LogProgress,
    PublishingAsset,
    Releases,
    Workspace,
    WorkspaceResource,
    judge_age,
    latest_runs,
    offered_by_listing,
    pointing_to,
    report_failure,
    survey_root,
)
from genolewm_assets.store.artefacts import ArtefactId


@dataclass(frozen=True, slots=True)
class Evaluations:
    """Makes evaluations that refer to the latest materialisation of what they judge."""

    instance: dg.DagsterInstance

    def of_currency(self, found: Currency) -> dg.AssetCheckEvaluation | None:
        """Return the evaluation of ``built_from_current_inputs``; None for what was never built."""
        latest = self.latest(found.artefact)
        if found.state == "not built" and latest is None:
            return None
        reasons = found.reasons or (("it was materialised, and nothing is published",) if latest else ())
        shown = found if found.state == "current" else Currency(found.artefact, found.state, reasons)
        return self.of(
            found.artefact,
            BUILT_FROM_CURRENT_INPUTS,
            latest,
            passed=found.state == "current",
            severity=dg.AssetCheckSeverity.WARN,
            metadata=shown.metadata(),
        )

    def of_age(self, workspace: Workspace, asset: PublishingAsset, releases: Releases) -> dg.AssetCheckEvaluation:
        """Return the evaluation of ``newest_release_built``, which concerns the asset and no single partition."""
        age = judge_age(workspace, asset, releases, partial(latest_runs, self.instance))
        artefact = ArtefactId(asset.key)
        return self.of(
            artefact,
            NEWEST_RELEASE_BUILT,
            self.latest(artefact),
            passed=age.passed,
            severity=age.severity,
            metadata=age.metadata(),
        )

    @staticmethod
    def of(
        artefact: ArtefactId,
        name: str,
        latest: dg.EventLogRecord | None,
        *,
        passed: bool,
        metadata: Mapping[str, Any],
        severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR,
        description: str | None = None,
        blocking: bool = False,
    ) -> dg.AssetCheckEvaluation:
        """Return the evaluation of a check; ``latest``: the latest materialisation of what it judges."""
        # Without this reference Dagster takes the evaluation for one of an older version.
        target = latest and AssetCheckEvaluationTargetMaterializationData(
            storage_id=latest.storage_id, run_id=latest.run_id, timestamp=latest.timestamp
        )
        return dg.AssetCheckEvaluation(
            asset_key=dg.AssetKey(artefact.asset.split("/")),
            check_name=name,
            passed=passed,
            severity=severity,
            description=description,
            metadata=metadata,
            target_materialization_data=target,
            blocking=blocking,
            partition=artefact.partition,
        )

    def latest(self, artefact: ArtefactId) -> dg.EventLogRecord | None:
        """Return the latest materialisation of a partition, or of any partition of an asset that is named alone."""
        partitions = None if artefact.partition is None else [artefact.partition]
        wanted = dg.AssetRecordsFilter(asset_key=dg.AssetKey(artefact.asset.split("/")), asset_partitions=partitions)
        return next(iter(self.instance.fetch_materializations(wanted, limit=1).records), None)


@dg.op(out=dg.Out(dg.Nothing), tags=cpu_op_tags())
def compare_with_sources(
    context: dg.OpExecutionContext, workspace: dg.ResourceParam[WorkspaceResource]
) -> Iterator[dg.AssetCheckEvaluation | dg.Output[None]]:
    """Compare every partition with what a build of now reads.

    Reports built_from_current_inputs of each partition, and newest_release_built of what follows ClinVar.
    """
    opened, evaluations = workspace.open(), Evaluations(context.instance)
    states: Counter[str] = Counter()
    with LogProgress(context.log.info) as progress:
        surveyed = replace(opened, progress=progress)
        for found in survey_root(surveyed, PUBLISHING.values(), context.instance):
            states[found.state] += 1
            if found.state in ("stale", "not compared"):
                page = check_page(found.artefact.asset, BUILT_FROM_CURRENT_INPUTS)
                context.log.warning(pointing_to(found.line(), page))
            if (evaluation := evaluations.of_currency(found)) is not None:
                yield evaluation
    releases = offered_by_listing(opened)
    for asset in PUBLISHING.values():
        if asset.follows_releases:
            evaluation = evaluations.of_age(opened, asset, releases)
            if not evaluation.passed:
                page = check_page(asset.key, NEWEST_RELEASE_BUILT)
                context.log.warning(pointing_to(f"{asset.key}: {evaluation.metadata['reason'].value}", page))
            yield evaluation
    context.log.info("partitions: " + ", ".join(f"{number} {state}" for state, number in sorted(states.items())))
    yield dg.Output(None, metadata={**states})


@dg.job(
    name="check_current",
    hooks={report_failure},
    description=(
        "Compare every partition with what a build of now would be made from, and the newest ClinVar release of each "
        "asset with the listing. Nothing is built or downloaded."
    ),
)
def check_current_job() -> None:
    """Run ``compare_with_sources``."""
    compare_with_sources()


check_current_schedule = dg.ScheduleDefinition(
    name="check_current_schedule",
    job=check_current_job,
    cron_schedule="47 4 * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description=(
        "Compare what is published with its sources daily, with one small request per remote file and release."
    ),
)
