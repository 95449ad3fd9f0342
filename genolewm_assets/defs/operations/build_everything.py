"""``build_everything``: every partition of every asset with one click, stage after stage.

The job asks for one run per partition, waits for each stage and says how far it is. What is current is kept.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import dagster as dg

from genolewm_assets.defs.assets import GATED, packages_current, register_pieces
from genolewm_assets.defs.operations.build_inputs import describe_missing, is_recorded, missing_inputs
from genolewm_assets.defs.operations.daily_jobs import observe_new_sources
from genolewm_assets.defs.operations.release_job import (
    RELEASE_ASSETS,
    STATES_OF_RELEASES,
    built_for,
    refresh_release_job,
    register_offered,
)
from genolewm_assets.defs.operations.run_folder_sensor import register_runs
from genolewm_assets.defs.operations.run_queue import (
    can_hold,
    cancel_waiting,
    latest_try,
    may_be_repeated,
    queue_run,
    release_run,
)
from genolewm_assets.defs.runtime import (
    REFRESH_TAG,
    STATES_OFF,
    UNFINISHED,
    GatedAsset,
    PublishingAsset,
    Workspace,
    WorkspaceResource,
    failure_of,
    is_held,
    report_failure,
)
from genolewm_assets.errors import GenoLeWMError, counted
from genolewm_assets.packages import read_current, released
from genolewm_assets.store.artefacts import ArtefactId

BUILD_EVERYTHING = "build_everything"

#: Tag of a run that waits for others. ``dagster.yaml`` lets one such run start at a time: more would fill the queue.
WAITS_TAG = "genolewm/waits_for_runs"
#: Tag of a requested run: what it builds.
BUILDS_TAG = "genolewm/builds"

_ASSET_JOB = "__ASSET_JOB"
_POLL_S, _SAY_EVERY_S = 1.0, 5.0
#: Seconds after which a failed run that Dagster has not decided to repeat counts as failed.
_DECIDED_WITHIN_S = 30.0


@dataclass(frozen=True, slots=True)
class Task:
    """One run: some assets of one partition."""

    #: Name of the job that makes the assets.
    job: str
    #: In dependency order.
    assets: tuple[PublishingAsset, ...]
    partition: str | None

    def __str__(self) -> str:
        names = ", ".join(asset.key for asset in self.assets)
        if self.job == refresh_release_job.name:
            names = self.job
        return names if self.partition is None else f"{names}[{self.partition}]"

    def is_current(self, workspace: Workspace, instance: dg.DagsterInstance) -> bool:
        """Tell whether every asset is published from what a build of now would read, and recorded by the instance."""
        return all(
            asset.currency(workspace, self.partition).state == "current"
            and _is_published_recorded(workspace, instance, asset, self.partition)
            for asset in self.assets
        )

    def missing(self, workspace: Workspace, instance: dg.DagsterInstance) -> str | None:
        """Return what the run would have to wait for; None if nothing."""
        if packages_current in self.assets and not released(workspace.root.path):
            return "waits for a package"
        gated = [asset for asset in self.assets if isinstance(asset, GatedAsset)]
        missing = missing_inputs(workspace, gated, self.partition, instance)
        return describe_missing(missing) if missing else None


#: Tasks that run one after the other.
Lane: TypeAlias = list[Task]
#: Lanes that run side by side.
Stage: TypeAlias = list[Lane]


def _is_published_recorded(
    workspace: Workspace, instance: dg.DagsterInstance, asset: PublishingAsset, partition: str | None
) -> bool:
    """Tell whether the latest materialisation that the instance knows of is the published one."""
    try:
        if isinstance(asset, GatedAsset):
            digest = asset.open(workspace.survey(), partition, contents="sizes").manifest.sha256
        else:
            digest = read_current(workspace.root.path).manifest_sha256
    except GenoLeWMError:
        return False
    return is_recorded(instance, ArtefactId(asset.key, partition), digest)


def plan_stages(workspace: Workspace, instance: dg.DagsterInstance, releases: Sequence[str]) -> list[Stage]:
    """Return all tasks: what no release needs to exist for, the releases (oldest first), the pointer, their states."""
    after = STATES_OF_RELEASES
    stages = [
        [[Task(_ASSET_JOB, group, partition)] for group in groups for partition in group[0].partitions.keys(instance)]
        for groups in _levels(
            [asset for asset in GATED.values() if asset.key not in RELEASE_ASSETS and asset not in after]
        )
    ]
    # One after the other: a release is compared with the one before it, and its temporal holdout reads an earlier one.
    refreshed: Lane = [Task(refresh_release_job.name, built_for(workspace, key), key) for key in releases]
    packaged = [key for key in releases if workspace.is_packaged(key)]
    states = [
        [Task(_ASSET_JOB, (asset,), key)]
        for asset in after
        for key in packaged
        if key in asset.partitions.keys(instance)
    ]
    return [*stages, [refreshed], [[Task(_ASSET_JOB, (packages_current,), None)]], *([states] if states else [])]


def _levels(assets: Sequence[GatedAsset]) -> Iterator[list[tuple[GatedAsset, ...]]]:
    """Yield, level by level, the groups of assets that runs can make when all levels before are built."""
    remaining, built = list(assets), set[str]()
    while remaining:
        groups: dict[object, list[GatedAsset]] = {}
        for asset in remaining:
            group = groups.setdefault(asset.partitions.definition, [])
            if all(_is_ready(dep, asset, built, group) for dep in asset.deps):
                group.append(asset)
        level = [tuple(group) for group in groups.values() if group]
        assert level, f"a circle among {[asset.key for asset in remaining]}"
        yield level
        built |= {asset.key for group in level for asset in group}
        remaining = [asset for asset in remaining if asset.key not in built]


def _is_ready(dep: dg.AssetDep, asset: GatedAsset, built: set[str], group: Sequence[GatedAsset]) -> bool:
    key = dep.asset_key.to_user_string()
    one_partition = asset.partitions.definition is None or isinstance(
        dep.partition_mapping, dg.IdentityPartitionMapping
    )
    return key not in GATED or key in built or (one_partition and key in {each.key for each in group})


@dataclass(slots=True)
class Builder:
    """Runs the tasks of stages through the queue of the instance."""

    workspace: Workspace
    instance: dg.DagsterInstance
    #: Puts the run of a task into the queue, and returns it; it may be held there.
    queue: Callable[[Task], dg.DagsterRun]
    #: Lets a run begin that is held, and returns it.
    release: Callable[[dg.DagsterRun], dg.DagsterRun]
    say: Callable[[str], None]
    #: Called between two looks at the runs.
    pause: Callable[[], None] = lambda: time.sleep(_POLL_S)
    #: One line for each task that failed or could not begin.
    failures: list[str] = field(default_factory=list)
    built: int = 0
    kept: int = 0

    def run_stage(self, stage: Stage, name: str) -> None:
        """Run every task of a stage; a task that fails holds up neither the others nor the rest of its lane."""
        total, done, said_s, started_s = sum(map(len, stage)), 0, time.monotonic(), time.monotonic()
        lanes = [list(lane) for lane in stage]
        running: dict[int, tuple[Task, str, float]] = {}
        self.say(f"{name}: {counted(total, 'run')} at most")
        while True:
            for number, lane in enumerate(lanes):
                if number in running and (run := self._ended(running[number][1])):
                    done += 1
                    self._note(running.pop(number), run, f"{name}: {done} of {total}")
                while number not in running and lane:
                    if (run := self._begin(task := lane.pop(0))) is not None:
                        running[number] = (task, run.run_id, time.monotonic())
                    else:
                        done += 1
            if not running:
                return
            if time.monotonic() - said_s >= _SAY_EVERY_S:
                said_s = time.monotonic()
                self.say(f"{name}: {done} of {total} done after {said_s - started_s:.0f} s, {self._state(running)}")
            self.pause()

    def prepare(self, tasks: Sequence[Task]) -> None:
        """Queue the runs of all tasks that are not current; automation then leaves to them what they build."""
        for task in tasks:
            if self._unfinished(task) is None and not task.is_current(self.workspace, self.instance):
                self.queue(task)

    def cancel_rest(self, tasks: Sequence[Task]) -> None:
        """Cancel the requested runs of tasks that were not launched."""
        for task in tasks:
            if (run := self._unfinished(task)) and BUILDS_TAG in run.tags:
                cancel_waiting(self.instance, run, f"{BUILD_EVERYTHING} ended before this run began.")

    def _unfinished(self, task: Task) -> dg.DagsterRun | None:
        """Return the run of a task that has not ended; an earlier job or the sensor may have requested it."""
        wanted = [dg.RunsFilter(tags={BUILDS_TAG: str(task)}, statuses=list(UNFINISHED))]
        if task.job == refresh_release_job.name and task.partition is not None:
            of_release = {"dagster/partition": task.partition}
            wanted.append(dg.RunsFilter(job_name=task.job, tags=of_release, statuses=list(UNFINISHED)))
        return next((run for each in wanted for run in self.instance.get_runs(each, limit=1)), None)

    def _begin(self, task: Task) -> dg.DagsterRun | None:
        """Let the run of a task begin; None if the task is current, or cannot be built."""
        run = self._unfinished(task)
        if run is not None and not is_held(run):
            return run
        if run is None and task.is_current(self.workspace, self.instance):
            self.kept += 1
            return None
        if missing := task.missing(self.workspace, self.instance):
            self.failures.append(f"{task}: {missing}")
            self.say(self.failures[-1])
            if run is not None:
                cancel_waiting(self.instance, run, f"It {missing}.")
            return None
        return self.release(run or self.queue(task))

    def _ended(self, run_id: str) -> dg.DagsterRun | None:
        """Return the run of a task, or the last that repeats it, if it has ended and is not about to be repeated."""
        run = self.instance.get_run_by_id(run_id)
        if run is None:
            raise dg.Failure(f"run {run_id} was deleted. Launch {BUILD_EVERYTHING} again.", allow_retries=False)
        tried = latest_try(self.instance, run)
        waits = may_be_repeated(self.instance, tried) and self._is_recent(tried.run_id)
        return tried if tried.is_finished and not waits else None

    def _is_recent(self, run_id: str) -> bool:
        record = self.instance.get_run_record_by_id(run_id)
        ended_s = record.end_time if record else None
        return ended_s is not None and time.time() - ended_s < _DECIDED_WITHIN_S

    def _note(self, begun: tuple[Task, str, float], run: dg.DagsterRun, progress: str) -> None:
        task, _, begun_s = begun
        if run.is_success:
            self.built += 1
            self.say(f"{progress}: {task} in {time.monotonic() - begun_s:.0f} s")
        else:
            self.failures.append(f"{task}: {failure_of(self.instance, run).line} (run {run.run_id[:8]})")
            self.say(f"{progress}: {self.failures[-1]}")

    def _state(self, running: dict[int, tuple[Task, str, float]]) -> str:
        runs = self.instance.get_runs(dg.RunsFilter(run_ids=[run_id for _, run_id, _ in running.values()]))
        queued = {run.run_id for run in runs if run.status is dg.DagsterRunStatus.QUEUED}
        active = ", ".join(str(task) for task, run_id, _ in running.values() if run_id not in queued)
        return f"{len(queued)} queued, now {active or 'none'}"


@dg.op
def build_stages(context: dg.OpExecutionContext, workspace: dg.ResourceParam[WorkspaceResource]) -> dg.Output[None]:
    """Request every run that is needed, and wait for it.

    Runs follow each other stage after stage.
    """
    _check_queue(context.instance)

    held = can_hold(context.instance)

    def queue(task: Task) -> dg.DagsterRun:
        partition = {} if task.partition is None else {"dagster/partition": task.partition}
        tags = {BUILDS_TAG: str(task), "genolewm/requested_by": context.run_id, REFRESH_TAG: "true", **partition}
        return queue_run(context, task.job, [dg.AssetKey(asset.path) for asset in task.assets], tags, held=held)

    try:
        opened = workspace.open()
        releases = register_offered(opened, context.instance)
        register_runs(opened, context.instance)
        register_pieces(opened, context.instance)
    except GenoLeWMError as err:
        raise dg.Failure(str(err), metadata={"exit_code": err.exit_code}, allow_retries=False) from err
    observe_new_sources(opened, context.instance, context.log.warning)
    if not opened.with_states:
        context.log.info(STATES_OFF)
    builder = Builder(opened, context.instance, queue, partial(release_run, context.instance), context.log.info)
    stages = plan_stages(opened, context.instance, releases)
    tasks = [task for stage in stages for lane in stage for task in lane]
    try:
        if held:
            builder.prepare(tasks)
        for number, stage in enumerate(stages, 1):
            builder.run_stage(stage, f"stage {number} of {len(stages)}")
    finally:
        builder.cancel_rest(tasks)
    if builder.failures:
        lines = "\n".join(f"- {line}" for line in builder.failures)
        raise dg.Failure(
            f"{len(builder.failures)} of {len(tasks)} runs failed. Mend what "
            f"they name and launch {BUILD_EVERYTHING} again: what is current is kept.\n{lines}",
            metadata={"failed": dg.MetadataValue.md(lines)},
            # The runs that failed for a fault of a machine have been launched again already.
            allow_retries=False,
        )
    return dg.Output(None, metadata={"built": builder.built, "kept": builder.kept, "releases": ", ".join(releases)})


def _check_queue(instance: dg.DagsterInstance) -> None:
    """Raise :class:`dg.Failure` if this run fills the queue, so that what it requests could never begin."""
    config = instance.get_concurrency_config().run_queue_config
    if config is not None and config.max_concurrent_runs == 1:
        raise dg.Failure(
            "dagster.yaml (concurrency.runs.max_concurrent_runs): the runs that this run waits for cannot begin: "
            "expected at least 2, got 1. Raise the limit and launch this job again.",
            allow_retries=False,
        )


@dg.job(
    name=BUILD_EVERYTHING,
    hooks={report_failure},
    tags={WAITS_TAG: "true"},
    description=(
        "Build every partition of every asset, stage after stage, and keep what is current: from an empty root to "
        "`packages/current` with one click on Launch Run. The button *Materialize all* of the asset graph cannot do "
        "this, because its assets have different kinds of partitions (contigs, pieces, releases), and a run "
        "takes one. States are encoded too, on an H100 where the deployment has one."
    ),
)
def build_everything_job() -> None:
    """Run ``build_stages``."""
    build_stages()
