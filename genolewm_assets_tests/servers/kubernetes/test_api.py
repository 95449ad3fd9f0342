"""The API server of the tests: who is let in, what is refused, and what becomes of Jobs and their processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client.rest import ApiException

from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.servers.kubernetes.access import Access
from genolewm_assets_tests.servers.kubernetes.api import api_server
from genolewm_assets_tests.servers.kubernetes.cluster import Cluster
from genolewm_assets_tests.servers.kubernetes.kube import CONFINED, LISTENS, ON_L40S, STUBBORN, Kube, eventually
from genolewm_assets_tests.servers.kubernetes.nodes import node_above
from genolewm_assets_tests.servers.kubernetes.shipped import NAMESPACE, manifests, some_nodes
from genolewm_assets_tests.servers.kubernetes.surroundings import Surroundings
from genolewm_assets_tests.servers.processes import is_running

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def kube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kube]:
    folder = tmp_path_factory.mktemp("kube")
    surroundings = Surroundings(
        images={"image": {"PATH": os.environ["PATH"], "FROM": "image"}},
        config_maps={"settings": {"FROM": "settings", "ROOT": "/srv"}},
        secrets={"database": {"PGPASSWORD": "secret"}},
        claims={"root": Path("/srv")},
    )
    cluster = Cluster(some_nodes(), Access.of_manifests(NAMESPACE, manifests()), surroundings, folder)
    with api_server(cluster) as url:
        yield Kube(cluster, url)


@each_row(("account", "status"), [("guessed", 401), ("", 401), ("genolewm-webserver", 403), ("genolewm-daemon", 200)])
def test_reading_jobs_takes_a_token_and_a_rule(kube: Kube, account: str, status: int) -> None:
    if status == 200:
        kube.batch(account).list_namespaced_job(NAMESPACE)
        return
    with pytest.raises(ApiException) as refused:
        kube.batch(account).list_namespaced_job(NAMESPACE)
    assert refused.value.status == status


def test_what_no_role_names_is_forbidden(kube: Kube) -> None:
    with pytest.raises(ApiException, match='cannot list resource \\\\"jobs\\\\"') as refused:
        kube.batch().list_namespaced_job("default")
    assert refused.value.status == 403
    with pytest.raises(ApiException) as refused:
        kube.core().list_namespaced_secret(NAMESPACE)
    assert refused.value.status == 404


def test_a_job_that_breaks_the_schema_or_exists_is_refused(kube: Kube) -> None:
    with pytest.raises(ApiException, match="nodeSelectors") as refused:
        kube.create("misspelt", ["true"], nodeSelectors={})
    assert refused.value.status == 422
    kube.create("twice", ["true"])
    with pytest.raises(ApiException, match="already exists") as refused:
        kube.create("twice", ["true"])
    assert refused.value.status == 409


def test_a_pod_is_a_process_below_its_node_with_the_environment_of_its_container(kube: Kube) -> None:
    container = {
        "name": "c",
        "image": "image",
        "command": ["sh", "-c", "env; exec sleep 60"],
        "securityContext": CONFINED,
        "envFrom": [{"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "database"}}],
        "env": [{"name": "ROOT", "value": "/other"}],
        "volumeMounts": [{"name": "root", "mountPath": "/srv"}],
    }
    volume = {"name": "root", "persistentVolumeClaim": {"claimName": "root"}}
    kube.create("env", [], containers=[container], volumes=[volume], nodeSelector=ON_L40S)
    pid = kube.pid("env")
    assert node_above(pid) == "l40s-1"
    (pod,) = kube.pods("env")
    assert (pod.spec.node_name, pod.status.phase) == ("l40s-1", "Running")
    lines = set(eventually(lambda: kube.log(pod)).splitlines())
    assert {"FROM=settings", "ROOT=/other", "PGPASSWORD=secret", f"HOSTNAME={pod.metadata.name}"} <= lines
    assert any(line.startswith("KUBERNETES_TOKEN=") for line in lines)
    kube.core().delete_namespaced_pod(pod.metadata.name, NAMESPACE)


@pytest.mark.parametrize(("code", "succeeded", "failed"), [(0, 1, None), (3, None, 1)])
def test_a_job_ends_as_its_process_does(kube: Kube, code: int, succeeded: int | None, failed: int | None) -> None:
    kube.create(f"exit-{code}", ["sh", "-c", f"exit {code}"])
    status = eventually(lambda: (found := kube.job(f"exit-{code}")).conditions and found)
    assert (status.active, status.succeeded, status.failed) == (None, succeeded, failed)
    (pod,) = kube.pods(f"exit-{code}")
    assert pod.status.container_statuses[0].state.terminated.exit_code == code


def test_a_failed_pod_is_made_again_as_often_as_the_job_says(kube: Kube) -> None:
    kube.create("again", ["false"], job={"backoffLimit": 2})
    status = eventually(lambda: (found := kube.job("again")).conditions and found)
    assert (status.conditions[0].reason, status.failed, len(kube.pods("again"))) == ("BackoffLimitExceeded", 3, 3)


@pytest.mark.parametrize(("command", "name"), [(LISTENS, "listens"), (STUBBORN, "stubborn")])
def test_a_deleted_pod_has_its_grace_period(kube: Kube, command: list[str], name: str) -> None:
    kube.create(name, command, terminationGracePeriodSeconds=1)
    pid = kube.pid(name)
    (pod,) = kube.pods(name)
    eventually(lambda: "ready" in kube.log(pod))
    # The Job alone leaves its pod behind.
    kube.batch().delete_namespaced_job(name, NAMESPACE)
    assert [each.metadata.name for each in kube.pods(name)] == [pod.metadata.name]
    assert is_running(pid)
    kube.core().delete_namespaced_pod(pod.metadata.name, NAMESPACE)
    eventually(lambda: not kube.pods(name))
    assert not is_running(pid)
    (kept,) = [each for each in kube.cluster.past if each.name == pod.metadata.name]
    assert kept.exit_code == (137 if name == "stubborn" else 0)


def test_a_pod_that_no_node_fits_says_why_and_goes_at_the_deadline(kube: Kube) -> None:
    kube.create("nowhere", ["true"], job={"activeDeadlineSeconds": 2}, nodeSelector={"nowhere": "true"})
    pod = eventually(lambda: next((each for each in kube.pods("nowhere") if each.status.conditions), None))
    (condition,) = pod.status.conditions
    assert (pod.status.phase, condition.type, condition.status, condition.reason) == (
        "Pending",
        "PodScheduled",
        "False",
        "Unschedulable",
    )
    assert condition.message.startswith("0/3 nodes are available: 1 node(s) had untolerated taint")
    status = eventually(lambda: (found := kube.job("nowhere")).conditions and found)
    assert (status.conditions[0].type, status.conditions[0].reason, status.failed) == ("Failed", "DeadlineExceeded", 1)
    eventually(lambda: not kube.pods("nowhere"))
    field = f"involvedObject.name={pod.metadata.name}"
    (event,) = kube.core().list_namespaced_event(NAMESPACE, field_selector=field).items
    assert (event.type, event.reason, event.message) == ("Warning", "FailedScheduling", condition.message)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"serviceAccountName": "nobody"}, 'serviceaccount "nobody" not found'),
        ({"hostNetwork": True}, 'violates PodSecurity "restricted": hostNetwork'),
    ],
)
def test_a_pod_that_may_not_be_made_is_an_event_of_its_job(kube: Kube, spec: dict[str, Any], reason: str) -> None:
    name = f"refused-{len(kube.cluster.jobs)}"
    kube.create(name, ["true"], **spec)
    events = eventually(
        lambda: kube.core().list_namespaced_event(NAMESPACE, field_selector=f"involvedObject.name={name}").items
    )
    assert events[0].reason == "FailedCreate"
    assert reason in events[0].message
    assert kube.pods(name) == []


@pytest.mark.parametrize(
    ("container", "reason", "message"),
    [
        ({"image": "other"}, "ImagePullBackOff", 'Back-off pulling image "other"'),
        ({"envFrom": [{"secretRef": {"name": "none"}}]}, "CreateContainerConfigError", 'secret "none" not found'),
    ],
)
def test_a_container_that_cannot_start_waits(kube: Kube, container: dict[str, Any], reason: str, message: str) -> None:
    name = f"waits-{len(kube.cluster.jobs)}"
    whole = {"name": "c", "image": "image", "command": ["true"], "securityContext": CONFINED, **container}
    kube.create(name, [], containers=[whole])
    pod = eventually(lambda: next((each for each in kube.pods(name) if each.status.container_statuses), None))
    waiting = pod.status.container_statuses[0].state.waiting
    assert (pod.status.phase, waiting.reason, waiting.message) == ("Pending", reason, message)
    kube.core().delete_namespaced_pod(pod.metadata.name, NAMESPACE)
    eventually(lambda: not kube.pods(name))


def test_jobs_go_with_the_pod_that_owns_them(kube: Kube) -> None:
    kube.create("owner", LISTENS)
    kube.pid("owner")
    (pod,) = kube.pods("owner")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": pod.metadata.uid}
    kube.create("owned", LISTENS, owners=[owner])
    owned = kube.pid("owned")
    kube.core().delete_namespaced_pod(pod.metadata.name, NAMESPACE)
    eventually(lambda: "owned" not in kube.cluster.jobs and not kube.pods("owned"))
    assert not is_running(owned)


def test_a_lost_node_takes_its_pods_along_and_may_come_back(kube: Kube) -> None:
    kube.create("lost", LISTENS, nodeSelector=ON_L40S)
    pid = kube.pid("lost")
    kube.cluster.kill_node("l40s-1")
    eventually(lambda: not is_running(pid))
    status = eventually(lambda: (found := kube.job("lost")).conditions and found)
    assert (status.conditions[0].reason, status.failed) == ("BackoffLimitExceeded", 1)
    (pod,) = kube.pods("lost")
    assert (pod.status.phase, pod.status.reason) == ("Failed", "NodeLost")
    kube.cluster.start_node("l40s-1")
    kube.create("found", LISTENS, nodeSelector=ON_L40S)
    assert node_above(kube.pid("found")) == "l40s-1"
