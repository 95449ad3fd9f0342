"""``verify_all``: hashes every published file again and reports for each partition whether it matches its manifest."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import dagster as dg

from genolewm_assets.defs.assets import GATED
from genolewm_assets.defs.display import check_description, failure_entries
from genolewm_assets.defs.engines import cpu_op_tags
from genolewm_assets.defs.operations.currency_job import Evaluations
from genolewm_assets.defs.runtime import BYTES_MATCH_MANIFEST, LogProgress, Workspace, WorkspaceResource, report_failure
from genolewm_assets.errors import GenoLeWMError, counted
from genolewm_assets.store.artefacts import ArtefactId, CheckResult, Finding, FindingKind, Verification, Verified
from genolewm_assets.verification import further_findings

#: Greatest number of problems that the check of a partition shows; the run's log has all.
_SHOWN = 20


@dataclass(slots=True)
class PartitionChecks:
    """Evaluations of ``bytes_match_manifest`` for each partition while a root is verified."""

    workspace: Workspace
    instance: dg.DagsterInstance
    #: Start of the verification, in seconds since 1970. For a partition materialised later no problem is reported,
    #: because its own build verified it and the problem concerns the previous files.
    started_s: float = field(default_factory=time.time)
    #: ``passed``, ``failed``: number of evaluations yielded so far.
    passed: int = 0
    failed: int = 0
    _expected: dict[str, ArtefactId] = field(default_factory=dict)
    _unlocated: dict[ArtefactId, Finding] = field(default_factory=dict)

    def __post_init__(self) -> None:
        every = [(asset, key) for asset in GATED.values() for key in asset.partitions.keys(self.instance)]
        for asset, partition in every:
            artefact = ArtefactId(asset.key, partition)
            try:
                self._expected[asset.location(self.workspace, partition)] = artefact
            except (GenoLeWMError, ValueError) as err:  # the path depends on other artefacts, which may be damaged
                self._unlocated[artefact] = _fault(str(artefact), f"its path cannot be determined: {err}")

    def found(self, verified: Verified) -> Iterator[dg.AssetCheckEvaluation]:
        """Yield the evaluation of the partition that is published at a verified location; none for other locations."""
        artefact = self._expected.pop(verified.location, None)
        if artefact is None:
            return
        manifest = verified.manifest
        problems = list(verified.findings)
        if manifest is not None and (other := ArtefactId(manifest.asset, manifest.partition)) != artefact:
            problems.append(_fault(verified.location, f"another artefact is published here: {other}"))
        figures: dict[str, int | str] = {}
        if manifest is not None:
            figures = {"files": len(manifest.files), "compared": len(manifest.files), "manifest": manifest.sha256}
            if not manifest.files:
                problems.append(_fault(verified.location, "not compared: the manifest lists no file"))
        yield from self._evaluate(artefact, problems, figures)

    def not_found(self) -> Iterator[dg.AssetCheckEvaluation]:
        """Yield a failed evaluation for each partition that was materialised but is not published."""
        nothing = {artefact: _fault(place, "nothing is published") for place, artefact in self._expected.items()}
        for artefact, problem in {**nothing, **self._unlocated}.items():
            if Evaluations(self.instance).latest(artefact) is not None:
                yield from self._evaluate(artefact, [problem], {})

    def _evaluate(
        self, artefact: ArtefactId, problems: list[Finding], figures: dict[str, int | str]
    ) -> Iterator[dg.AssetCheckEvaluation]:
        evaluations = Evaluations(self.instance)
        latest = evaluations.latest(artefact)
        if problems and latest is not None and latest.timestamp > self.started_s:
            return
        self.passed += not problems
        self.failed += bool(problems)
        check = CheckResult(BYTES_MATCH_MANIFEST, not problems, {**figures}, [_row(each) for each in problems])
        shown = {"problems": dg.MetadataValue.md("\n".join(f"- {line}" for line in problems[:_SHOWN]))}
        yield evaluations.of(
            artefact,
            check.name,
            latest,
            passed=not problems,
            description=check_description(check),
            metadata={**failure_entries(check, BYTES_MATCH_MANIFEST.remedy), **figures, **(shown if problems else {})},
            blocking=True,
        )


def _fault(where: str, problem: str) -> Finding:
    return Finding(FindingKind.CORRUPT, where, None, problem)


def _row(finding: Finding) -> dict[str, object]:
    """Return a finding as a row at fault."""
    file = finding.location if finding.file is None else f"{finding.location}/{finding.file}"
    return {"file": file, "problem": finding.problem, "expected": finding.expected, "got": finding.got}


@dg.op(out=dg.Out(dg.Nothing), tags=cpu_op_tags())
def verify_files(
    context: dg.OpExecutionContext, workspace: dg.ResourceParam[WorkspaceResource]
) -> Iterator[dg.AssetCheckEvaluation | dg.Output[None]]:
    """Compare every file of the root with its manifest.

    Fails at the end if a published file is damaged or missing.
    """
    opened = workspace.open()
    checks = PartitionChecks(opened, context.instance)
    # Each evaluation is yielded at once, so that an interrupted run keeps its results. It belongs to this run, because
    # Dagster's table of checks takes only one evaluation per partition that has no run.
    with LogProgress(context.log.info) as progress:
        verification = Verification(opened.root, progress)
        for verified in verification:
            yield from checks.found(verified)
    yield from checks.not_found()
    findings = [*further_findings(opened.root), *verification.findings]
    faults = [str(finding) for finding in findings if finding.is_fault]
    for finding in findings:
        (context.log.error if finding.is_fault else context.log.info)(f"{finding.kind.value}: {finding}")
    context.log.info(f"{counted(checks.passed, 'artefact')} as in the manifest, {checks.failed} not")
    if faults or checks.failed:
        first = faults[0] if faults else "a materialised partition is not published"
        raise dg.Failure(
            f"{opened.root.path}: {counted(len(faults), 'fault')}, {counted(checks.failed, 'partition')} damaged; "
            f"the first: {first}",
            metadata={"partitions_passed": checks.passed, "partitions_failed": checks.failed, "faults": len(faults)},
            allow_retries=False,
        )
    yield dg.Output(None, metadata={"partitions_passed": checks.passed})


@dg.job(
    name="verify_all",
    hooks={report_failure},
    description="Hash every published file again and report bytes_match_manifest for each partition of each asset.",
)
def verify_all_job() -> None:
    """Run ``verify_files``."""
    verify_files()


verify_all_schedule = dg.ScheduleDefinition(
    name="verify_all_schedule",
    job=verify_all_job,
    cron_schedule="13 1 * * 0",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Hash every published file weekly: builds hash a file again only if its size, times or inode changed.",
)
