"""Records of audits as ``packages/audit`` leaves them in a root, without an audit."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from genolewm_assets.packages.audits import (
    AUDIT_ASSET,
    IS_CONCLUSIVE,
    NO_LEAK_FOUND,
    PLANTED_LEAKS_FOUND,
    audit_location,
)
from genolewm_assets.store.artefacts.build import BuildPlan, BuildRejectedError, BuildReport, build
from genolewm_assets.store.artefacts.check_result import CheckResult
from genolewm_assets.store.artefacts.manifest import InputRef
from genolewm_assets.store.artefacts.published import ArtefactId
from genolewm_assets.store.artefacts.root import Root


def record_audit(root: Path, release: str, manifest_sha256: str, *, passed: bool = True) -> None:
    """Record that the package with this manifest was audited; one that failed is rejected as by a build."""

    def write(work: Path) -> BuildReport:
        (work / "report.json").write_text("{}\n")
        rows = [] if passed else [{"kind": "held_sequence", "what": "reference chr17:0"}]
        return BuildReport(
            checks=(
                CheckResult(NO_LEAK_FOUND, passed, {}, rows),
                *(CheckResult(name, passed=True) for name in (PLANTED_LEAKS_FOUND, IS_CONCLUSIVE)),
            )
        )

    plan = BuildPlan(
        artefact=ArtefactId(AUDIT_ASSET, release),
        location=audit_location(release),
        code_version="1",
        recipe={"passed": passed},
        inputs=(InputRef("packages/split", release, manifest_sha256),),
        write=write,
    )
    with suppress(BuildRejectedError):
        build(Root(root), plan)
