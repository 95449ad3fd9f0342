"""``verify_all``: hash every published file again, and say of each partition whether it is what was published."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import dagster as dg

# How an evaluation names the materialisation that it is about; Dagster gives it no name at the top.
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationTargetMaterializationData

from genolewm_assets.defs.assets import GATED
from genolewm_assets.defs.runtime import BYTES_MATCH_MANIFEST, LogProgress, Workspace, WorkspaceResource, report_failure
from genolewm_assets.errors import GenoLeWMError
from genolewm_assets.lewm.states import find_index_faults
from genolewm_assets.store.artefacts import ArtefactId, Verification, Verified

#: Problems of one partition that its check shows; the run's log has all.
_SHOWN = 20


@dataclass(slots=True)
class PartitionChecks:
    """What is to be said of each partition while a root is verified.

    Attributes
    ----------
    started_s
        What was built after it was verified by its build, and is not spoken ill of for what stood there before.
    """

    workspace: Workspace
    instance: dg.DagsterInstance
    started_s: float = field(default_factory=time.time)
    passed: int = 0
    failed: int = 0
    _expected: dict[str, ArtefactId] = field(default_factory=dict)
    _homeless: dict[ArtefactId, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        every = [(asset, key) for asset in GATED.values() for key in asset.partitions.keys(self.instance)]
        for asset, partition in every:
            artefact = ArtefactId(asset.key, partition)
            try:
                self._expected[asset.location(self.workspace, partition)] = artefact
            except (GenoLeWMError, ValueError) as err:  # by what it is made from, which may be anything now
                self._homeless[artefact] = f"{artefact}: its place cannot be told: {err}"

    def found(self, verified: Verified) -> Iterator[dg.AssetCheckEvaluation]:
        """Yield what a generation says of the partition that consumers open there; most older ones are nobody's."""
        artefact = self._expected.pop(verified.location, None)
        if artefact is None:
            return
        manifest = verified.manifest
        problems = [str(finding) for finding in verified.findings]
        if manifest is not None and (other := ArtefactId(manifest.asset, manifest.partition)) != artefact:
            problems.append(f"{verified.location}: another artefact is published here: {other}")
        figures: dict[str, int | str] = {}
        if manifest is not None:
            figures = {"files": len(manifest.files), "manifest": manifest.sha256}
        yield from self._evaluate(artefact, problems, figures)

    def not_found(self) -> Iterator[dg.AssetCheckEvaluation]:
        """Yield the partitions that were materialised and of which nothing was found."""
        nothing = {artefact: f"{location}: nothing is published" for location, artefact in self._expected.items()}
        for artefact, problem in {**nothing, **self._homeless}.items():
            if self._latest(artefact) is not None:
                yield from self._evaluate(artefact, [problem], {})

    def _evaluate(
        self, artefact: ArtefactId, problems: list[str], figures: dict[str, int | str]
    ) -> Iterator[dg.AssetCheckEvaluation]:
        latest = self._latest(artefact)
        if problems and latest is not None and latest.timestamp > self.started_s:
            return
        self.passed += not problems
        self.failed += bool(problems)
        shown = {"problems": dg.MetadataValue.md("\n".join(f"- {line}" for line in problems[:_SHOWN]))}
        # Without its materialisation an evaluation counts as one of an older version.
        target = latest and AssetCheckEvaluationTargetMaterializationData(
            storage_id=latest.storage_id, run_id=latest.run_id, timestamp=latest.timestamp
        )
        yield dg.AssetCheckEvaluation(
            asset_key=_key(artefact),
            check_name=BYTES_MATCH_MANIFEST,
            passed=not problems,
            metadata={**figures, **(shown if problems else {})},
            target_materialization_data=target,
            blocking=True,
            partition=artefact.partition,
        )

    def _latest(self, artefact: ArtefactId) -> dg.EventLogRecord | None:
        partitions = None if artefact.partition is None else [artefact.partition]
        wanted = dg.AssetRecordsFilter(asset_key=_key(artefact), asset_partitions=partitions)
        return next(iter(self.instance.fetch_materializations(wanted, limit=1).records), None)


def _key(artefact: ArtefactId) -> dg.AssetKey:
    return dg.AssetKey(artefact.asset.split("/"))


@dg.op(out=dg.Out(dg.Nothing))
def verify_files(
    context: dg.OpExecutionContext, workspace: WorkspaceResource
) -> Iterator[dg.AssetCheckEvaluation | dg.Output[None]]:
    """Compare every file of the root with its manifest; fail at the end if anything published is damaged."""
    opened = workspace.open()
    checks = PartitionChecks(opened, context.instance)
    verification = Verification(opened.root, LogProgress(context.log.info))
    # Yielded at once and by this run: one cut short has said what it knew, and without a run Dagster's table of checks
    # takes one evaluation of a partition, ever.
    for verified in verification:
        yield from checks.found(verified)
    yield from checks.not_found()
    findings = [*find_index_faults(opened.root), *verification.findings]
    faults = [str(finding) for finding in findings if finding.is_fault]
    for finding in findings:
        (context.log.error if finding.is_fault else context.log.info)(f"{finding.kind.value}: {finding}")
    context.log.info(f"{checks.passed} partitions are what was published, {checks.failed} are not")
    if faults or checks.failed:
        first = faults[0] if faults else "something that was materialised is not published"
        raise dg.Failure(
            f"{opened.root.path}: {len(faults)} faults, {checks.failed} partitions damaged; the first: {first}",
            metadata={"partitions_passed": checks.passed, "partitions_failed": checks.failed, "faults": len(faults)},
            allow_retries=False,
        )
    yield dg.Output(None, metadata={"partitions_passed": checks.passed})


@dg.job(
    name="verify_all",
    hooks={report_failure},
    description="Hash every published file again; report bytes_match_manifest for each partition of each asset.",
)
def verify_all_job() -> None:
    """Run the one step."""
    verify_files()
