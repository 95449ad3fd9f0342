"""The plan of ``build_everything``, and what it makes of runs that end in one way or another.

The job as the daemon runs it: ``browser/test_first_click.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
import yaml

from genolewm_assets.defs.assets.graph import PUBLISHING
from genolewm_assets.defs.operations.build_everything import (
    BUILDS_TAG,
    WAITS_TAG,
    Builder,
    Task,
    build_everything_job,
    plan_stages,
)
from genolewm_assets.defs.operations.release_job import RELEASE_ASSETS, register_offered
from genolewm_assets.defs.operations.run_queue import cancel_stranded, latest_try, may_be_repeated
from genolewm_assets.defs.runtime.failures import HELD_TAG, NEVER_BEGAN, failure_of
from genolewm_assets_tests.defs.conftest import copied
from genolewm_assets_tests.places import REPOSITORY
from genolewm_assets_tests.worlds.graph.built_world import BuiltWorld
from genolewm_assets_tests.worlds.graph.sensor_world import NEW, OLD, unregistered_world
from genolewm_assets_tests.worlds.graph.tiny_world import CONTIGS, CORPUS, LINEAR

world = copied


@pytest.fixture
def empty(tmp_path: Path) -> BuiltWorld:
    """Return a world in which nothing is built."""
    world = unregistered_world(tmp_path / "empty")
    world.__class__ = BuiltWorld
    return world


def add_run(
    instance: dg.DagsterInstance, status: str, job: str = "job", tags: dict[str, str] | None = None
) -> dg.DagsterRun:
    return instance.add_run(dg.DagsterRun(job_name=job, status=dg.DagsterRunStatus[status], tags=tags or {}))


@pytest.fixture
def repeating(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """Return an instance that launches a failed run again."""
    settings = {"run_retries": {"enabled": True, "max_retries": 3}, "telemetry": {"enabled": False}}
    with dg.DagsterInstance.local_temp(str(tmp_path), overrides=settings) as instance:
        yield instance


class Queue:
    """Runs each task at once, in this process."""

    def __init__(self, world: BuiltWorld) -> None:
        self.world = world
        self.asked: list[str] = []
        self.said: list[str] = []
        workspace, tasks = world.workspace(), dict[str, Task]()

        def queue(task: Task) -> dg.DagsterRun:
            tasks[str(task)] = task
            return add_run(world.instance, "NOT_STARTED", task.job, {BUILDS_TAG: str(task), HELD_TAG: "true"})

        def release(run: dg.DagsterRun) -> dg.DagsterRun:
            world.instance.delete_run(run.run_id)
            task = tasks[run.tags[BUILDS_TAG]]
            self.asked.append(str(task))
            result = world.materialize(*(asset.key for asset in task.assets), partition=task.partition)
            return world.instance.get_run_by_id(result.run_id)

        self.builder = Builder(workspace, world.instance, queue, release, self.said.append, pause=lambda: None)

    def waiting(self) -> list[str]:
        """Return the tasks whose runs are held."""
        runs = self.world.instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.NOT_STARTED]))
        return sorted(run.tags[BUILDS_TAG] for run in runs if HELD_TAG in run.tags)


def test_every_partition_of_every_asset_is_planned_once_after_what_it_reads(empty: BuiltWorld) -> None:
    releases = register_offered(empty.workspace(), empty.instance)
    assert releases == [OLD, NEW]
    stages = plan_stages(empty.workspace(), empty.instance, releases)
    tasks = [[task for lane in stage for task in lane] for stage in stages]
    planned = [(asset.key, task.partition) for stage in tasks for task in stage for asset in task.assets]
    wanted = [(asset.key, key) for asset in PUBLISHING.values() for key in asset.partitions.keys(empty.instance)]
    assert sorted(planned, key=str) == sorted(wanted, key=str)
    assert [{str(task) for task in stage} for stage in tasks] == [
        {"reference/genome, mito/genomes, mito/tokens", *(f"corpus/records[{name}]" for name in CORPUS)},
        {
            *(f"gnomad/shard[{name}]" for name in CONTIGS),
            *(f"windows/index, embeddings/cache[{name}]" for name in LINEAR),
            *(f"corpus/windows, embeddings/corpus[{name}]" for name in CORPUS),
        },
        {f"refresh_release[{key}]" for key in releases},
        {"packages/current"},
    ]
    # A release after the one before it.
    assert [len(lane) for lane in stages[2]] == [2]


@pytest.mark.nightly
def test_what_is_current_is_kept_and_the_rest_is_asked_for(world: BuiltWorld) -> None:
    queue = Queue(world)
    for stage in plan_stages(world.workspace(), world.instance, [OLD, NEW]):
        queue.builder.run_stage(stage, "stage")
    assert (queue.asked, queue.builder.failures, queue.builder.built) == ([], [], 0)
    world.write_gnomad("chr17", world.gnomad_records("chr17")[:-1])
    stages = plan_stages(world.workspace(), world.instance, [])
    (stage,) = [stage for stage in stages if any(task.partition == "chr17" for lane in stage for task in lane)]
    queue.builder.run_stage(stage, "stage")
    assert (queue.asked, queue.builder.failures, queue.builder.built) == (["gnomad/shard[chr17]"], [], 1)


def test_what_fails_is_named_and_holds_up_only_what_reads_it(empty: BuiltWorld) -> None:
    empty.write_gnomad("chr20", empty.gnomad_records("chr20", wrong_ref=5))
    register_offered(empty.workspace(), empty.instance)
    queue = Queue(empty)
    gnomad = [Task("__ASSET_JOB", (PUBLISHING["gnomad/shard"],), name) for name in ("chr20", "chr17")]
    queue.builder.run_stage([gnomad], "stage 1 of 2")
    assert queue.asked == []
    assert queue.builder.failures == [f"{task}: waits for reference/genome" for task in gnomad]
    empty.make("reference/genome")
    queue.builder.failures.clear()
    queue.builder.run_stage([gnomad], "stage 1 of 2")
    assert queue.asked == [str(task) for task in gnomad]
    (failure,) = queue.builder.failures
    assert failure.startswith("gnomad/shard[chr20]: gnomad/shard[chr20]: the build failed its checks")
    assert queue.said[-1].startswith("stage 1 of 2: 2 of 2: gnomad/shard[chr17] in ")
    packages = Task("refresh_release", tuple(PUBLISHING[key] for key in RELEASE_ASSETS), NEW)
    queue.builder.run_stage([[packages]], "stage 2 of 2")
    assert queue.builder.failures[-1].startswith(f"refresh_release[{NEW}]: waits for windows/index[")


def test_runs_of_what_is_not_current_are_queued_at_once_and_once(world: BuiltWorld) -> None:
    world.write_gnomad("chr17", world.gnomad_records("chr17")[:-1])
    queue = Queue(world)
    tasks = [task for stage in plan_stages(world.workspace(), world.instance, []) for lane in stage for task in lane]
    queue.builder.prepare(tasks)
    queue.builder.prepare(tasks)
    assert (queue.waiting(), queue.asked) == (["gnomad/shard[chr17]"], [])
    queue.builder.cancel_rest(tasks)
    assert queue.waiting() == []


def test_a_release_that_the_sensor_requested_is_neither_queued_again_nor_cancelled(empty: BuiltWorld) -> None:
    queue, instance = Queue(empty), empty.instance
    task = Task("refresh_release", tuple(PUBLISHING[key] for key in RELEASE_ASSETS), NEW)
    tags = {"dagster/partition": NEW, "dagster/sensor_name": "clinvar_release_sensor"}
    asked = add_run(instance, "NOT_STARTED", task.job, tags)
    queue.builder.prepare([task])
    assert queue.waiting() == []
    assert instance.get_runs_count() == 1
    queue.builder.cancel_rest([task, Task(task.job, task.assets, OLD)])
    (found,) = instance.get_runs()
    assert (found.run_id, found.status) == (asked.run_id, dg.DagsterRunStatus.NOT_STARTED)


def test_a_run_that_dagster_repeats_is_followed(repeating: dg.DagsterInstance) -> None:
    failed = add_run(repeating, "FAILURE")
    assert may_be_repeated(repeating, failed)
    repeating.add_run_tags(failed.run_id, {"dagster/will_retry": "true"})
    failed = repeating.get_run_by_id(failed.run_id)
    assert (latest_try(repeating, failed), may_be_repeated(repeating, failed)) == (failed, True)
    repeated = add_run(repeating, "STARTED", tags={"dagster/parent_run_id": failed.run_id})
    assert latest_try(repeating, failed) == repeated
    # The repeat fails too, and is about to be repeated: the chain ends there, and not at its first run.
    repeating.report_run_failed(repeated)
    assert latest_try(repeating, failed).run_id == repeated.run_id
    assert may_be_repeated(repeating, latest_try(repeating, failed))
    final = add_run(repeating, "FAILURE", tags={"dagster/will_retry": "false"})
    assert (latest_try(repeating, final), may_be_repeated(repeating, final)) == (final, False)
    assert failure_of(repeating, final).line == "the run ended as failure"


def test_held_runs_that_nothing_can_release_are_cancelled(repeating: dg.DagsterInstance) -> None:
    everything = add_run(repeating, "STARTED", "build_everything")
    held, _ = add_run(repeating, "NOT_STARTED", tags={HELD_TAG: "true"}), add_run(repeating, "NOT_STARTED")
    assert cancel_stranded(repeating, "build_everything") == 0
    repeating.report_run_failed(everything)
    assert cancel_stranded(repeating, "build_everything") == 0  # it may be repeated, and then goes on with them
    repeating.add_run_tags(everything.run_id, {"dagster/will_retry": "false"})
    assert cancel_stranded(repeating, "build_everything") == 1
    ended = repeating.get_run_by_id(held.run_id)
    assert (ended.status, ended.tags[HELD_TAG]) == (dg.DagsterRunStatus.CANCELED, NEVER_BEGAN)
    assert cancel_stranded(repeating, "build_everything") == 0
    assert repeating.get_runs_count(dg.RunsFilter(statuses=[dg.DagsterRunStatus.NOT_STARTED])) == 1


def test_one_run_that_waits_for_others_leaves_a_place_in_the_queue() -> None:
    limits = yaml.safe_load((REPOSITORY / "dagster.yaml").read_text())["concurrency"]["runs"]
    assert limits["tag_concurrency_limits"] == [
        {"key": WAITS_TAG, "limit": 1},
        {"key": HELD_TAG, "value": "true", "limit": 0},
    ]
    assert limits["max_concurrent_runs"] > 1
    assert WAITS_TAG in build_everything_job.tags


def test_a_queue_of_one_place_is_refused(empty: BuiltWorld, tmp_path: Path) -> None:
    settings = {
        "run_coordinator": {"module": "dagster.core.run_coordinator", "class": "QueuedRunCoordinator"},
        "concurrency": {"runs": {"max_concurrent_runs": 1}},
        "telemetry": {"enabled": False},
    }
    (tmp_path / "history").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "history"), overrides=settings) as instance:
        result = empty.run_job("build_everything", instance=instance)
        assert "expected at least 2, got 1" in failure_of(instance, instance.get_run_by_id(result.run_id)).line
