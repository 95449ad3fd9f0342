"""A Kubernetes of three nodes below Dagster: where steps run, why one waits, what lost and cancelled ones leave.

The tests are one story and run in their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from genolewm_assets_tests.live.engine_steps import (
    LATER,
    cancel,
    launched_again,
    messages,
    printed,
    stop_while_it_builds,
)
from genolewm_assets_tests.live.harness import LiveServer, live_server, wait_until
from genolewm_assets_tests.servers.kubernetes.api import api_server
from genolewm_assets_tests.servers.kubernetes.shipped import Shipped
from genolewm_assets_tests.servers.postgres import postgres_server
from genolewm_assets_tests.servers.processes import is_running, variables_of, watching
from genolewm_assets_tests.worlds.graph.built_world import copied_world, forget
from genolewm_assets_tests.worlds.graph.tiny_world import bytes_of

pytestmark = [pytest.mark.timeout(1_200)]

#: Built of chr17 by the backfill, in one run; all that it reads is there already.
BUILT = ("windows/index", "embeddings/cache")


@dataclass
class Witness:
    """Notes the processes of runs (step ``""``) and steps on a root by pod; other tests have others."""

    root: Path
    found: dict[tuple[str, str], int] = field(default_factory=dict)

    def note(self, pid: int, words: list[bytes]) -> None:
        """Note a process if it executes a run or a step."""
        if not {b"execute_step", b"execute_run"} & set(words):
            return
        variables = variables_of(pid)
        # A process that is ending has no environment.
        if variables.get("GENOLEWM_ROOT") == str(self.root) and is_running(pid):
            # The launcher puts the ids into labels, and the name of the pod into HOSTNAME.
            key = (variables.get("HOSTNAME", ""), variables.get("DAGSTER_RUN_STEP_KEY", ""))
            self.found.setdefault(key, pid)


@dataclass(frozen=True)
class Story:
    server: LiveServer
    shipped: Shipped
    url: str
    witness: Witness
    backfill: str
    undisturbed: dict[str, bytes]

    def seen(self, run_id: str) -> dict[str, tuple[int, str]]:
        """Return the process and the node of a run and its steps; that of the run itself is under ``""``."""
        with self.shipped.cluster.lock:
            pods = {pod.name: pod for pod in self.shipped.cluster.past if pod.labels.get("dagster/run-id") == run_id}
        return {step: (pid, pods[pod].node) for (pod, step), pid in list(self.witness.found.items()) if pod in pods}

    def pod(self, run_id: str) -> set[str]:
        """Return the uid of the pod of a run."""
        labels = {"dagster/run-id": run_id, "app.kubernetes.io/component": "run_worker"}
        past = self.shipped.cluster.past
        return {pod.manifest["metadata"]["uid"] for pod in past if labels.items() <= pod.labels.items()}

    def owners(self, run_id: str) -> dict[str, set[str]]:
        """Return the uids of the owners of the Jobs of the steps of a run."""
        with self.shipped.cluster.lock:
            jobs = [job["metadata"] for job in self.shipped.cluster.jobs.values()]
        steps = [job for job in jobs if job["labels"]["dagster/run-id"] == run_id and "dagster/op" in job["labels"]]
        return {job["labels"]["dagster/op"]: {each["uid"] for each in job["ownerReferences"]} for job in steps}

    def step(self, run_id: str) -> int:
        """Wait for the process of the only step of a run, and return its id."""
        wait_until(lambda: self.seen(run_id).keys() - {""}, "the step to start")
        (step,) = [pid for step, (pid, _) in self.seen(run_id).items() if step]
        return step


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Serve a root from which some artefacts were removed, on PostgreSQL, with what ``deploy/kubernetes`` ships."""
    folder = tmp_path_factory.mktemp("kubernetes")
    world = copied_world(tmp_path_factory, folder / "world")
    root, undisturbed = world.root, bytes_of(world.root)
    with postgres_server(folder / "database") as postgres:
        for asset, partition in (*((asset, "chr17") for asset in BUILT), LATER):
            forget(root, asset, partition)
        home = root / "dagster"
        shipped = Shipped(root, str(world.catalog), home, folder / "kubeconfig", postgres.environment)
        with api_server(shipped.cluster) as url:
            shipped.write_kubeconfig(url)
            settings, environment = shipped.instance_settings(), shipped.environment_of("genolewm-daemon")
            served = live_server(root, world.catalog, settings=settings, environment=environment)
            witness = Witness(root)
            with served as server, watching(witness.note):
                # From here on nothing but the tests requests runs.
                for sensor in ("clinvar_release_sensor", "cpu_automation_sensor"):
                    server.graphql.stop_sensor(sensor)
                # The daemon looks at it within half a minute.
                backfill = server.graphql.backfill_several({asset: ["chr17"] for asset in BUILT})
                yield Story(server, shipped, url, witness, backfill, undisturbed)


def test_a_run_that_is_cancelled_ends_its_step_on_the_other_node(story: Story) -> None:
    graphql = story.server.graphql
    run = graphql.launch(*LATER)
    step = story.step(run)
    cancel(graphql, run)
    wait_until(lambda: not is_running(step), "the process of the step to end", timeout_s=90)
    wait_until(lambda: not story.shipped.cluster.pods_of_run(run), "the pods of the run to be gone", timeout_s=90)
    assert bytes_of(story.server.root).keys() < story.undisturbed.keys()


def test_states_are_computed_on_the_h100_node_and_all_else_on_the_cpu_node(story: Story) -> None:
    graphql = story.server.graphql
    wait_until(lambda: graphql.runs_of_backfill(story.backfill), "the run of the backfill")
    (run,) = graphql.runs_of_backfill(story.backfill)
    assert graphql.wait_for_run(run.id).status == "SUCCESS", messages(graphql, run.id)[-6:]
    nodes = {step: node for step, (_, node) in story.seen(run.id).items()}
    assert nodes == {"": "cpu-1", "windows__index": "cpu-1", "embeddings__cache": "h100-1"}
    assert story.owners(run.id) == {"windows__index": story.pod(run.id), "embeddings__cache": story.pod(run.id)}


def test_what_a_step_prints_is_found_by_the_ui(story: Story) -> None:
    (run,) = [run for run in story.server.graphql.runs(statuses=["SUCCESS"]) if run.partition == "chr17"]
    assert story.seen(run.id).keys() - {""} == {"windows__index", "embeddings__cache"}
    for step in story.seen(run.id).keys() - {""}:
        assert f"{step} - STEP_START" in printed(story.server, run.id, step)


def test_a_step_that_no_node_fits_says_why_and_ends_at_its_deadline(story: Story) -> None:
    graphql, cluster = story.server.graphql, story.shipped.cluster
    cluster.nodes[1].cordoned = True
    deadline_s = story.shipped.settings["GENOLEWM_STEP_DEADLINE_S"]
    story.shipped.settings["GENOLEWM_STEP_DEADLINE_S"] = "12"
    run = graphql.launch(*LATER)
    wait_until(lambda: any("1 node(s) were unschedulable" in said for said in messages(graphql, run)), "the reason")
    (waits,) = [said for said in messages(graphql, run) if said.startswith("The pod of step embeddings__corpus waits")]
    assert "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't match Pod's node affinity" in waits
    assert graphql.wait_for_run(run).status == "FAILURE"
    story.shipped.settings["GENOLEWM_STEP_DEADLINE_S"] = deadline_s
    cluster.nodes[1].cordoned = False
    (failure,) = graphql.step_failures(run)
    assert "DeadlineExceeded: Job was active longer than specified deadline" in failure
    assert "It had not started. Unschedulable: 0/3 nodes are available: 1 node(s) were unschedulable" in failure
    assert story.seen(run).keys() == {""}
    wait_until(lambda: all(pod.has_ended for pod in cluster.pods_of_run(run)), "the pod of the run to end")


def test_a_step_that_loses_its_node_fails_and_the_next_try_builds_the_same_bytes(story: Story) -> None:
    graphql, root, cluster = story.server.graphql, story.server.root, story.shipped.cluster
    (late,) = [run.id for run in graphql.runs(statuses=["FAILURE"])]
    lost = launched_again(graphql, late)
    step = story.step(lost)
    stop_while_it_builds(root, step)
    assert bytes_of(root).keys() < story.undisturbed.keys()
    cluster.lose_node("h100-1")
    wait_until(lambda: not is_running(step), "the process of the lost step to end", timeout_s=60)
    assert graphql.wait_for_run(lost).status == "FAILURE"
    (failure,) = graphql.step_failures(lost)
    assert "BackoffLimitExceeded" in failure
    assert "Node h100-1 which was running pod" in failure

    again = launched_again(graphql, lost)
    assert graphql.wait_for_run(again).status == "SUCCESS", graphql.step_failures(again)
    assert story.seen(again)["embeddings__corpus"][1] == "h100-1"
    assert bytes_of(root) == story.undisturbed


def test_no_step_was_ever_anywhere_else(story: Story) -> None:
    placed = [pod for pod in story.shipped.cluster.past if pod.node]
    assert {pod.node for pod in placed} == {"cpu-1", "h100-1"}
    for pod in placed:
        step = pod.labels.get("dagster/op", "")
        assert pod.node == ("h100-1" if step.startswith("embeddings__") else "cpu-1"), step


def test_the_backfill_is_complete(story: Story) -> None:
    assert story.server.graphql.wait_for_backfill(story.backfill) == "COMPLETED_SUCCESS"
