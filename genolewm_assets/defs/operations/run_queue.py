"""Runs that a run requests: put into the instance's queue, and held there until the daemon may launch them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import dagster as dg

from genolewm_assets.defs.runtime import (
    HELD,
    HELD_TAG,
    NEVER_BEGAN,
    RELEASED,
    UNFINISHED,
    WAITING,
    WILL_RETRY_TAG,
    is_held,
)

#: Tag that Dagster gives a run that repeats a failed one (``run_retries`` in ``dagster.yaml``).
_PARENT = "dagster/parent_run_id"


def queue_run(
    context: dg.OpExecutionContext, job: str, assets: Sequence[dg.AssetKey], tags: Mapping[str, str], *, held: bool
) -> dg.DagsterRun:
    """Queue a run of an asset job for some of its assets; ``held`` until :func:`release_run`, where :func:`can_hold`.

    From now on Dagster takes the assets for being built, so that automation does not request them too.
    """
    # Dagster has no public function by which a run requests another; these names are what its sensors use.
    from dagster._core.origin import JobPythonOrigin
    from dagster._core.remote_origin import RemoteJobOrigin
    from dagster._core.run_coordinator import SubmitRunContext

    own, instance = context.run, context.instance
    assert own.remote_job_origin is not None, "this run was not launched by the daemon or the web server"
    assert own.job_code_origin is not None
    definition = context.repository_def.get_job(job)
    run = instance.create_run_for_job(
        definition,
        asset_selection=set(assets),
        tags={**definition.tags, **tags, **({HELD_TAG: HELD} if held else {})},
        status=dg.DagsterRunStatus.NOT_STARTED,
        remote_job_origin=RemoteJobOrigin(own.remote_job_origin.repository_origin, job),
        job_code_origin=JobPythonOrigin(job, own.job_code_origin.repository_origin),
    )
    return instance.run_coordinator.submit_run(SubmitRunContext(run, None))  # type: ignore[arg-type]  # queues ask none


def can_hold(instance: dg.DagsterInstance) -> bool:
    """Tell whether the queue of the instance keeps runs with ``HELD_TAG: true``, as ``dagster.yaml`` asks it to."""
    config = instance.get_concurrency_config().run_queue_config
    limits = [] if config is None else config.tag_concurrency_limits
    return {"key": HELD_TAG, "value": HELD, "limit": 0} in limits


def release_run(instance: dg.DagsterInstance, run: dg.DagsterRun) -> dg.DagsterRun:
    """Let the queue launch a run that it kept."""
    if is_held(run):
        instance.add_run_tags(run.run_id, {HELD_TAG: RELEASED})
    return run


def cancel_waiting(instance: dg.DagsterInstance, run: dg.DagsterRun, why: str) -> None:
    """Cancel a run that has not been launched yet."""
    if run.status in WAITING:
        instance.report_run_canceled(run, why)
        if is_held(run):
            # After the cancellation, so that the queue does not launch it. A re-execution takes over the tags.
            instance.add_run_tags(run.run_id, {HELD_TAG: NEVER_BEGAN})


def cancel_stranded(instance: dg.DagsterInstance, job: str) -> int:
    """Cancel the held runs that no run of ``job`` can release any more; return their number."""
    held = dg.RunsFilter(tags={HELD_TAG: HELD}, statuses=list(WAITING))
    if not instance.get_runs_count(held) or instance.get_runs_count(
        dg.RunsFilter(job_name=job, statuses=list(UNFINISHED))
    ):
        return 0
    newest = instance.get_runs(dg.RunsFilter(job_name=job), limit=1)
    if newest and may_be_repeated(instance, newest[0]):
        return 0
    stranded = instance.get_runs(held)
    for run in stranded:
        cancel_waiting(instance, run, f"{job} ended before this run began.")
    return len(stranded)


def latest_try(instance: dg.DagsterInstance, run: dg.DagsterRun) -> dg.DagsterRun:
    """Return the last run of those that repeat a run: the run itself if it was not repeated."""
    while run.status is dg.DagsterRunStatus.FAILURE and (
        repeats := instance.get_runs(dg.RunsFilter(tags={_PARENT: run.run_id}), limit=1)
    ):
        run = repeats[0]
    return run


def may_be_repeated(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Tell whether Dagster repeats a failed run, or has not decided yet."""
    failed = run.status is dg.DagsterRunStatus.FAILURE
    return failed and instance.run_retries_enabled and run.tags.get(WILL_RETRY_TAG) != "false"
