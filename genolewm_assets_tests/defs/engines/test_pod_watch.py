"""The log of a run says why the pod of a step waits, and why one failed."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from dagster._core.executor.step_delegating import CheckStepHealthResult
from dagster_k8s.client import DagsterKubernetesClient

from genolewm_assets.defs.engines.pod_watch import PodWatch
from genolewm_assets_tests.servers.kubernetes.api import CONFINED, LISTENS, Kube, api_server, eventually
from genolewm_assets_tests.servers.kubernetes.cluster import Cluster
from genolewm_assets_tests.servers.kubernetes.manifests import NAMESPACE
from genolewm_assets_tests.servers.kubernetes.shipped import some_nodes, some_tokens


class Step:
    """The watch over the Job of one step, as the executor asks it."""

    def __init__(self, kube: Kube, job: str, account: str = "genolewm-run") -> None:
        client = DagsterKubernetesClient(kube.batch(account), kube.core(account), logging.info, time.sleep, time.time)
        self.healthy, self.reported = CheckStepHealthResult.healthy(), list[str]()
        inner: Any = SimpleNamespace(_api_client=client, _get_k8s_step_job_name=lambda _: job)
        inner.check_step_health = lambda _: self.healthy
        launcher = SimpleNamespace(job_namespace=NAMESPACE)
        instance = SimpleNamespace(run_launcher=launcher, report_engine_event=self._report)
        asked = SimpleNamespace(step_keys_to_execute=["embeddings__cache"])
        self._context: Any = SimpleNamespace(instance=instance, dagster_run="run", execute_step_args=asked)
        self._watch = PodWatch(inner)

    def _report(self, message: str, run: object, *, step_key: str) -> None:
        assert (run, step_key) == ("run", "embeddings__cache")
        self.reported.append(message)

    def look(self) -> list[str]:
        """Look at a step that Dagster takes for healthy; returns what has been reported up to now."""
        assert self._watch.check_step_health(self._context).is_healthy
        return self.reported

    def end(self) -> str:
        """Look at a step that Dagster takes for healthy; returns why it has failed, empty if it has not."""
        return self._watch.check_step_health(self._context).unhealthy_reason or ""

    def failure(self) -> str:
        """Look at a step that Dagster takes for failed; returns the reason that its log then has."""
        self.healthy = CheckStepHealthResult.unhealthy("Discovered failed Kubernetes job.")
        found = self._watch.check_step_health(self._context)
        assert not found.is_healthy
        return str(found.unhealthy_reason)


@pytest.fixture(scope="module")
def kube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kube]:
    images = {"image": {"PATH": os.environ["PATH"]}}
    cluster = Cluster(some_nodes(), some_tokens(), images, tmp_path_factory.mktemp("watched"))
    with api_server(cluster) as url:
        yield Kube(cluster, url)


def test_each_reason_to_wait_is_said_once(kube: Kube) -> None:
    kube.create("unplaced", ["true"], nodeSelector={"nowhere": "true"})
    step = Step(kube, "unplaced")
    (first,) = eventually(step.look)
    said = "The pod of step embeddings__cache waits. Unschedulable: 0/3 nodes are available: 1 node(s)"
    assert first.startswith(said)
    assert step.look() == [first]
    kube.cluster.nodes[0].cordoned = True
    try:
        _, second = eventually(lambda: len(step.look()) > 1 and step.reported)
    finally:
        kube.cluster.nodes[0].cordoned = False
    assert "1 node(s) were unschedulable" in second
    for _ in range(10):
        # The first reason holds again within this time.
        time.sleep(0.05)
        assert len(step.look()) == 2


def test_a_container_that_cannot_start_is_said(kube: Kube) -> None:
    container = {"name": "c", "image": "other", "command": ["true"], "securityContext": CONFINED}
    kube.create("unpulled", [], containers=[container])
    (said,) = eventually(Step(kube, "unpulled").look)
    assert said == 'The pod of step embeddings__cache waits. ImagePullBackOff: Back-off pulling image "other"'


def test_a_job_without_a_pod_is_said(kube: Kube) -> None:
    kube.create("unmade", ["true"], serviceAccountName="nobody")
    (said,) = eventually(Step(kube, "unmade").look)
    assert 'waits. FailedCreate: Error creating: pods "unmade-" is forbidden: serviceaccount "nobody"' in said


def test_of_a_step_that_works_nothing_is_said(kube: Kube) -> None:
    kube.create("works", LISTENS)
    eventually(lambda: [each.status.phase for each in kube.pods("works")] == ["Running"])
    assert Step(kube, "works").look() == []


def test_a_failure_has_exit_code_and_last_lines(kube: Kube) -> None:
    kube.create("dies", ["sh", "-c", "echo no module named torch; exit 3"])
    eventually(lambda: kube.job("dies").conditions)
    said = Step(kube, "dies").failure()
    assert said.startswith("Discovered failed Kubernetes job.\nBackoffLimitExceeded: Job has reached")
    assert "Terminated with exit code 3" in said
    assert "no module named torch" in said


def test_at_the_deadline_the_last_reason_to_wait_is_said(kube: Kube) -> None:
    kube.create("late", ["true"], job={"activeDeadlineSeconds": 2}, nodeSelector={"nowhere": "true"})
    step = Step(kube, "late")
    eventually(step.look)
    eventually(lambda: kube.job("late").conditions and not kube.pods("late"))
    said = step.failure()
    assert "DeadlineExceeded: Job was active longer than specified deadline" in said
    assert "It had not started. Unschedulable: 0/3 nodes are available" in said


def test_a_job_that_never_had_a_pod_fails_at_its_deadline(kube: Kube) -> None:
    kube.create("refused", ["true"], job={"activeDeadlineSeconds": 6}, serviceAccountName="nobody")
    said = eventually(Step(kube, "refused").end)
    assert not kube.job("refused").failed
    assert said.startswith("Kubernetes job refused failed.\nDeadlineExceeded: ")
    assert 'It had not started. FailedCreate: Error creating: pods "refused-" is forbidden' in said


def test_a_step_whose_job_is_complete_has_one_look_to_tell_its_end(kube: Kube) -> None:
    kube.create("silent", ["true"])
    step = Step(kube, "silent")
    eventually(lambda: kube.job("silent").conditions)
    assert step.end() == ""
    assert step.end().startswith("Kubernetes job silent is complete, and its step did not tell that it ended.")


def test_a_log_that_is_not_text_hides_no_failure(kube: Kube) -> None:
    kube.create("binary", ["sh", "-c", "printf '\\377\\376'; exit 3"])
    eventually(lambda: kube.job("binary").conditions)
    assert Step(kube, "binary").failure().startswith("Discovered failed Kubernetes job.")


def test_a_refused_question_changes_no_verdict(kube: Kube) -> None:
    kube.create("asked", LISTENS)
    step = Step(kube, "asked", "guessed")
    assert step.look() == []
    assert step.failure().startswith("Discovered failed Kubernetes job.\nKubernetes did not say why: (401)")


def test_it_is_dagsters_handler_in_all_else() -> None:
    events = iter([dg.DagsterEvent])
    inner: Any = SimpleNamespace(name="inner", _api_client=None, launch_step=lambda _: events)
    watch = PodWatch(inner)
    assert watch.name == "inner"
    assert list(watch.launch_step(None)) == [dg.DagsterEvent]  # type: ignore[arg-type]


def test_a_step_that_waited_and_then_worked_had_started(kube: Kube) -> None:
    for node in kube.cluster.nodes:
        node.cordoned = True
    kube.create("starts", LISTENS)
    step = Step(kube, "starts")
    try:
        eventually(step.look)
    finally:
        for node in kube.cluster.nodes:
            node.cordoned = False
    eventually(lambda: [each.status.phase for each in kube.pods("starts")] == ["Running"])
    step.look()
    (pod,) = kube.pods("starts")
    kube.core().delete_namespaced_pod(pod.metadata.name, NAMESPACE)
    eventually(lambda: not kube.pods("starts"))
    assert "had not started" not in step.failure()
