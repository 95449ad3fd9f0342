"""Slurm below Dagster: where states are computed, and what a cancelled run, a killed process and a lost node leave.

The tests are one story and run in their order.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import yaml

from genolewm_assets_tests.deploy.installation import DEPLOY
from genolewm_assets_tests.live.engine_steps import (
    LATER,
    cancel,
    launched_again,
    messages,
    printed,
    stop_while_it_builds,
)
from genolewm_assets_tests.live.harness import LiveServer, live_server, wait_until
from genolewm_assets_tests.servers.postgres import postgres_server
from genolewm_assets_tests.servers.processes import is_running, watching
from genolewm_assets_tests.servers.slurm_cluster import SlurmCluster, Witness, slurm_cluster
from genolewm_assets_tests.worlds.graph.built_world import copied_world, forget
from genolewm_assets_tests.worlds.graph.tiny_world import bytes_of

pytestmark = [pytest.mark.timeout(1_200)]

#: Built by the backfill.
BUILT = {"windows/index": ["chr17"], "embeddings/cache": ["chr17"], "corpus/windows": ["mrna_evo2"]}


@dataclass(frozen=True)
class Story:
    server: LiveServer
    cluster: SlurmCluster
    witness: Witness
    undisturbed: dict[str, bytes]
    comments: dict[int, str] = field(default_factory=dict)

    def jobs_of(self, run_id: str) -> dict[str, int]:
        """Return the jobs of a run whose process was seen, by step, as their comments in Slurm say."""
        found = {}
        for job in list(self.witness.jobs):
            if job not in self.comments:
                self.comments[job] = self.cluster.field(job, "Comment")
            said = dict(part.partition("=")[::2] for part in self.comments[job].split(","))
            if said.get("run") == run_id:
                found[said["step"]] = job
        return found

    def job_of(self, run_id: str) -> int:
        """Wait until the one job of a run works, and return it."""
        wait_until(lambda: self.jobs_of(run_id), "the process of the job", every_s=0.02)
        (job,) = self.jobs_of(run_id).values()
        return job


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Serve a root from which some artefacts were removed, on PostgreSQL, with the settings of ``deploy``."""
    folder = tmp_path_factory.mktemp("slurm")
    world = copied_world(tmp_path_factory, folder / "world")
    root, undisturbed = world.root, bytes_of(world.root)
    with postgres_server(folder / "database") as postgres, slurm_cluster() as cluster:
        for asset, partitions in BUILT.items():
            for partition in partitions:
                forget(root, asset, partition)
        forget(root, *LATER)
        environment = {
            **postgres.environment,
            **cluster.environment,
            "GENOLEWM_EXECUTOR": "slurm",
            "GENOLEWM_SLURM_PARTITION": "h100",
            "GENOLEWM_RUN_LOGS": str(root / "dagster/logs"),
            "GENOLEWM_RUN_FILES": str(root / "dagster"),
        }
        settings = yaml.safe_load((DEPLOY / "dagster.yaml").read_text())
        served = live_server(root, world.catalog, settings=settings, environment=environment)
        witness = Witness(cluster, root)
        with served as server, watching(witness.note):
            for sensor in ("clinvar_release_sensor", "cpu_automation_sensor"):
                server.graphql.stop_sensor(sensor)
            yield Story(server, cluster, witness, undisturbed)


def processes_of(server: LiveServer, run_id: str) -> dict[str, int]:
    """Return the process of each step of a run, as Dagster started it."""
    events = server.graphql.query(
        """query ($id: ID!) { runOrError(runId: $id) { ... on Run { eventConnection { events { __typename
             ... on StepWorkerStartedEvent { stepKey metadataEntries { label
               ... on TextMetadataEntry { text } ... on IntMetadataEntry { intValue } } } } } } } }""",
        id=run_id,
    )["runOrError"]["eventConnection"]["events"]
    return {
        event["stepKey"]: int(entry.get("intValue") or entry["text"])
        for event in events
        if event["__typename"] == "StepWorkerStartedEvent"
        for entry in event["metadataEntries"]
        if entry["label"] == "pid"
    }


def test_a_run_that_is_cancelled_ends_its_job_and_a_backfill_computes_on_the_h100_node(story: Story) -> None:
    graphql = story.server.graphql
    # The daemon looks at a backfill twice a minute; meanwhile, a run is cancelled.
    backfill = graphql.backfill_several(BUILT)
    _cancelled(story)
    wait_until(lambda: _ended(graphql.runs_of_backfill(backfill)), "the runs of the backfill")
    runs = graphql.runs_of_backfill(backfill)
    assert {run.status for run in runs} == {"SUCCESS"}, [graphql.step_failures(run.id) for run in runs]
    jobs = {(run.id, step): job for run in runs for step, job in story.jobs_of(run.id).items()}
    steps = {(run.id, step): pid for run in runs for step, pid in processes_of(story.server, run.id).items()}
    asked = {(run.id, asset.replace("/", "__")) for run in runs for asset in graphql.assets_of_run(run.id)}
    assert set(steps) == asked
    assert len(steps) == sum(map(len, BUILT.values()))
    (((_, step), job),) = jobs.items()
    assert step == "embeddings__cache"
    seen = story.witness.jobs[job]
    assert (seen.node, story.witness.builders) == ("h100-1", {"h100-1"})
    assert seen.devices == ("0" if os.geteuid() == 0 else None)
    # No other step had a job, and the processes of all steps are none of Slurm's.
    assert len(story.witness.jobs) == 2
    assert {story.witness.nodes[pid] for pid in steps.values()} == {None}
    built, missing = bytes_of(story.server.root), story.undisturbed.keys() - bytes_of(story.server.root).keys()
    assert built == {path: data for path, data in story.undisturbed.items() if path not in missing}
    assert {path.split("/")[0] for path in missing} == {"embeddings"}


def _cancelled(story: Story) -> None:
    """Launch a run, cancel it once its job works, and see that nothing of it is left."""
    graphql = story.server.graphql
    run = graphql.launch(*LATER)
    job = story.job_of(run)
    cancel(graphql, run)
    assert story.cluster.field(job, "JobState") == "CANCELLED"
    wait_until(lambda: not is_running(story.witness.jobs[job].pid), "the process of the job to end", timeout_s=60)
    assert not list(story.server.root.glob("work/slurm/*"))


def test_what_a_job_prints_is_found_by_the_ui(story: Story) -> None:
    (run,) = [run for run in story.server.graphql.runs(statuses=["SUCCESS"]) if run.partition == "chr17"]
    log = messages(story.server.graphql, run.id)
    assert any("is RUNNING on h100-1" in line for line in log)
    assert any(line.startswith("embeddings/cache[chr17] is built on") for line in log)
    assert "embeddings/cache[chr17] is built on" in printed(story.server, run.id, "embeddings__cache", "stdout")


def test_a_killed_process_and_a_lost_node_are_tried_again_and_the_bytes_are_the_same(story: Story) -> None:
    graphql, root, cluster = story.server.graphql, story.server.root, story.cluster
    first = graphql.launch(*LATER)
    killed = story.job_of(first)
    stop_while_it_builds(root, story.witness.jobs[killed].pid)
    os.kill(story.witness.jobs[killed].pid, signal.SIGKILL)
    assert graphql.wait_for_run(first).status == "FAILURE"
    (reason,) = graphql.step_failures(first)
    assert f"Slurm job {killed} did not succeed: got FAILED" in reason
    assert "killed by signal 9" in reason

    second = launched_again(graphql, first)
    lost = story.job_of(second)
    stop_while_it_builds(root, story.witness.jobs[lost].pid)
    # The process stays, stopped in the middle of its work: only its node has vanished.
    cluster.lose_node("h100-1")
    assert graphql.wait_for_run(second).status == "FAILURE"
    (reason,) = graphql.step_failures(second)
    assert f"Slurm job {lost} did not succeed: got NODE_FAIL" in reason
    assert bytes_of(root).keys() < story.undisturbed.keys()

    third = launched_again(graphql, second)
    wait_until(
        lambda: any("waits: PENDING, reason " in line for line in messages(graphql, third)),
        "the reason to wait",
    )
    cluster.start_node("h100-1")
    assert graphql.wait_for_run(third).status == "SUCCESS", graphql.step_failures(third)
    assert not is_running(story.witness.jobs[lost].pid)
    assert bytes_of(root) == story.undisturbed


def _ended(runs: list[Any]) -> bool:
    return len(runs) == 2 and all(run.status in {"SUCCESS", "FAILURE", "CANCELED"} for run in runs)
