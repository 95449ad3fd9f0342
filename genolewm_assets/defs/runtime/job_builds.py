"""Builds that are jobs of a batch system: submitted by the step, which then verifies what the job published."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import dagster as dg

from genolewm_assets.defs.runtime.run_log import LogProgress
from genolewm_assets.errors import DeviceError
from genolewm_assets.store.artefacts import (
    WORK,
    BuildPlan,
    BuildReport,
    Damage,
    Published,
    Root,
    build,
    is_current,
    read_manifest,
    reasons_to_build,
)
from genolewm_assets.store.files import resolve_generation

#: Seconds that this machine may take to see what another one has published.
_SEEN_S = 90.0

#: Program of a job; see ``defs.slurm_job``.
_PROGRAM = "genolewm_assets.defs.slurm_job"


class _NotPublishedError(DeviceError):
    """The published version is not the one of the plan, or its bytes are damaged."""


def is_job(*, h100: bool) -> bool:
    """Tell whether the build of an asset, which may need an H100, is a job here."""
    return h100 and os.environ.get("GENOLEWM_EXECUTOR") == "slurm"


def build_in_job(context: dg.AssetExecutionContext, root: Root, plan: BuildPlan) -> Published:
    """Keep an artefact that is current, else build it in a job; raises as ``store.build``, and for a lost job."""
    if is_current(root, plan):
        try:
            return _verified(context, root, plan)
        except _NotPublishedError as err:
            context.log.warning("%s", err)
    outcome = _run_job(context, root, plan, "build")
    _wait_until_seen(root, plan)
    return replace(_verified(context, root, plan), reused=bool(outcome.get("reused")))


def build_again_in_job(context: dg.AssetExecutionContext, root: Root, plan: BuildPlan) -> tuple[Damage, ...]:
    """Build a published artefact once more in a job, and return every difference; see ``store.build_again``."""
    outcome = _run_job(context, root, plan, "build again")
    return tuple(Damage(*each) for each in outcome["differences"])


def _verified(context: dg.AssetExecutionContext, root: Root, plan: BuildPlan) -> Published:
    """Return the published artefact after its bytes were compared with its manifest."""

    def refuse(_: Path) -> BuildReport:
        why = "; ".join(_differences(root, plan)) or "its bytes differ from its manifest"
        raise _NotPublishedError(str(plan.artefact), "is not published as this machine would build it", got=why)

    with LogProgress(context.log.info) as progress:
        return build(root, replace(plan, write=refuse), run_id=context.run.run_id, progress=progress)


def _differences(root: Root, plan: BuildPlan) -> tuple[str, ...]:
    try:
        return reasons_to_build(plan, read_manifest(resolve_generation(root.link_of(plan.location))))
    except OSError as err:
        return (str(err),)


def _wait_until_seen(root: Root, plan: BuildPlan) -> None:
    """Wait until this machine sees what another one has published; NFS may show what was there before for a while."""
    deadline = time.monotonic() + _SEEN_S
    while not is_current(root, plan) and time.monotonic() < deadline:
        time.sleep(0.5)


def _run_job(
    context: dg.AssetExecutionContext, root: Root, plan: BuildPlan, task: Literal["build", "build again"]
) -> Mapping[str, Any]:
    """Run a job and return what it states."""
    from genolewm_assets.defs.engines.slurm import (
        PipesSlurmClient,
        SlurmJobError,
        failure_in,
        outcome_in,
        read_settings,
    )

    token, settings = uuid.uuid4().hex, read_settings()
    folder = root.path / WORK / "slurm" / token
    # Numba refuses kernels that it cannot cache. On a node, the home of a service's user may be none.
    environment = {"NUMBA_CACHE_DIR": str(folder / "numba"), **settings.environment}
    try:
        done = PipesSlurmClient(replace(settings, environment=environment)).run(
            context=context,
            extras={"asset": plan.artefact.asset, "partition": plan.artefact.partition, "task": task},
            command=[sys.executable, "-P", "-m", _PROGRAM],
            name=_job_name(root, plan),
            comment=f"run={context.run.run_id},step={context.op_execution_context.op_handle},try={token}",
            folder=folder,
        )
    except SlurmJobError as err:
        stated = failure_in(err.messages) if err.state == "FAILED" else None
        if stated is None:
            raise
        raise stated from stated.__cause__
    outcome = outcome_in(done.get_custom_messages())
    if outcome is None:
        raise DeviceError(str(plan.artefact), "the job ended well, but does not state what it built")
    return outcome


def _job_name(root: Root, plan: BuildPlan) -> str:
    """Return a name that jobs for one artefact of one root share, and that says which in ``squeue``."""
    place = hashlib.sha256(str(root.path).encode()).hexdigest()[:8]
    return f"genolewm-{place}-" + re.sub(r"[^A-Za-z0-9_./\[\]-]", "_", str(plan.artefact))
