"""How an asset is built, checked and published, and when automation may ask for it.

A gated asset declares its checks beside its plan. A build that fails one publishes nothing: the failed results are
recorded for the partition, the work directory is kept under ``rejected/``, and the last good version stays.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import dagster as dg

from genolewm_assets.defs.check_descriptions import CHECK_DESCRIPTIONS
from genolewm_assets.defs.run_log import LogProgress
from genolewm_assets.defs.workspace import Workspace
from genolewm_assets.errors import BusyError, FetchError, GenoLeWMError
from genolewm_assets.store import ArtefactId, BuildPlan, BuildRejectedError, CheckResult, Progress, Published, build

#: First check of every gated asset: sources could be read and inputs could be opened.
INPUTS_ACCEPTED = "inputs_accepted"

#: Every file has the size and the SHA-256 of the manifest; a build says so, and ``verify_all`` again and again.
BYTES_MATCH_MANIFEST = "bytes_match_manifest"

#: Checks of every gated asset, besides its own.
STANDING_CHECKS = (INPUTS_ACCEPTED, BYTES_MATCH_MANIFEST)

#: Open only when every blocking check of every upstream partition passed on its latest materialisation.
#: ``all_deps_blocking_checks_passed`` is not used: it opens as soon as any one upstream partition passed.
GATE = ~dg.AutomationCondition.any_deps_match(
    ~dg.AutomationCondition.all_checks_match(dg.AutomationCondition.check_passed(), blocking_only=True)
)

#: What the body of a gated asset yields.
GatedEvents: TypeAlias = Iterator[dg.AssetCheckResult | dg.MaterializeResult[None]]


@dataclass(frozen=True, slots=True)
class GatedAsset:
    """One asset of the graph: what it is called, which facts it guarantees, how a partition of it is built.

    Attributes
    ----------
    key
        ``domain/noun``.
    checks
        Names of the facts that hold of everything published, besides :data:`STANDING_CHECKS`.
    plan
        From workspace, partition key and progress sink to the build plan; opens (and so verifies) the inputs.
    describe
        From what was published to the metadata shown in the UI.
    after
        Called with what was published, before the run reports it; returns what else the UI shows.
    """

    key: str
    checks: tuple[str, ...]
    plan: Callable[[Workspace, str | None, Progress], BuildPlan]
    describe: Callable[[Published], dict[str, dg.MetadataValue]]
    after: Callable[[Workspace, BuildPlan, Published], dict[str, dg.MetadataValue]] | None = None

    @property
    def check_names(self) -> tuple[str, ...]:
        """Names of all its checks."""
        return (*STANDING_CHECKS, *self.checks)

    def check_specs(self, partitions_def: dg.PartitionsDefinition | None = None) -> list[dg.AssetCheckSpec]:
        """Return one blocking check per fact, partitioned as the asset is."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dg.PreviewWarning)  # partitioned checks, new in Dagster 1.13
            return [
                dg.AssetCheckSpec(
                    name,
                    asset=self.key.split("/"),
                    description=CHECK_DESCRIPTIONS[name],
                    blocking=True,
                    partitions_def=partitions_def,
                )
                for name in self.check_names
            ]

    def run(self, context: dg.AssetExecutionContext, workspace: Workspace) -> GatedEvents:
        """Build one partition; yield its materialisation with the check results, or the failed checks and fail."""
        partition = context.partition_key if context.has_partition_key else None
        artefact = ArtefactId(self.key, partition)
        try:
            progress = LogProgress(context.log.info)
            plan = self.plan(workspace, partition, progress)
            if plan.note:
                context.log.info(plan.note)
            published = build(workspace.root, plan, run_id=context.run.run_id, progress=progress)
            further = {} if self.after is None else self.after(workspace, plan, published)
        except GenoLeWMError as err:
            # Planning may build too (the simulated sources): only this artefact's own checks are this asset's.
            rejected = isinstance(err, BuildRejectedError) and err.where == str(artefact)
            yield self._result(INPUTS_ACCEPTED, passed=rejected, **({} if rejected else {"error": str(err)}))
            yield from map(self._as_dagster, err.checks if isinstance(err, BuildRejectedError) and rejected else ())
            retry = isinstance(err, (BusyError, FetchError))
            raise dg.Failure(str(err), metadata={"exit_code": err.exit_code}, allow_retries=retry) from err
        if published.reused:
            context.log.info("%s is current: the published version was verified and kept", published.artefact)
        yield dg.MaterializeResult(
            metadata={**self.describe(published), **further},
            data_version=dg.DataVersion(f"sha256:{published.manifest.sha256}"),
            check_results=[
                self._result(INPUTS_ACCEPTED, passed=True),
                # Measured while it was written, or hashed again to be kept.
                self._result(BYTES_MATCH_MANIFEST, passed=True, files=len(published.manifest.files)),
                *map(self._as_dagster, published.manifest.checks),
            ],
        )

    def _as_dagster(self, check: CheckResult) -> dg.AssetCheckResult:
        return self._result(check.name, passed=check.passed, **check.figures)

    def _result(self, name: str, *, passed: bool, **figures: Any) -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=passed, asset_key=self.key.split("/"), check_name=name, metadata=figures)
