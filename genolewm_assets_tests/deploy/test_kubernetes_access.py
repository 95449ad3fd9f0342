"""The shipped launcher: ends a run with the role of the web server, and looks after runs with that of the daemon."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster._core.launcher import WorkerStatus
from dagster._serdes import ConfigurableClassData
from dagster_k8s import K8sRunLauncher

from genolewm_assets_tests.servers.kubernetes.api import LISTENS, Kube, api_server, eventually
from genolewm_assets_tests.servers.kubernetes.shipped import Shipped

RUN = dg.DagsterRun("job", "0" * 8, status=dg.DagsterRunStatus.STARTED)
JOB = f"dagster-run-{RUN.run_id}"


@pytest.fixture
def shipped(tmp_path: Path) -> Shipped:
    return Shipped(Path("/srv/genolewm"), "sample", Path("/etc/genolewm"), tmp_path / "kubeconfig", {})


@pytest.fixture
def launcher_of(shipped: Shipped, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], K8sRunLauncher]]:
    """Return what makes the launcher of the process of a service account."""
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_run(RUN)

        def made(account: str) -> K8sRunLauncher:
            for name, value in shipped.environment_of(account).items():
                monkeypatch.setenv(name, value)
            settings = shipped.instance_settings()["run_launcher"]
            data = ConfigurableClassData(settings["module"], settings["class"], yaml.safe_dump(settings["config"]))
            launcher = data.rehydrate(as_type=K8sRunLauncher)
            launcher.register_instance(instance)
            return launcher

        yield made


def test_the_web_server_may_end_a_run(shipped: Shipped, launcher_of: Callable[[str], K8sRunLauncher]) -> None:
    with api_server(shipped.cluster) as url:
        shipped.write_kubeconfig(url)
        kube = Kube(shipped.cluster, url)
        kube.create(JOB, LISTENS)
        eventually(lambda: kube.pods(JOB))
        assert launcher_of("genolewm-webserver").terminate(RUN.run_id)
        eventually(lambda: not kube.pods(JOB))
        assert shipped.cluster.jobs == {}


def test_who_launches_a_run_does_not_say_what_its_pod_is(
    shipped: Shipped, launcher_of: Callable[[str], K8sRunLauncher]
) -> None:
    shipped.write_kubeconfig("http://127.0.0.1:1")
    config = {"container_config": {"image": "other"}, "pod_spec_config": {"service_account_name": "other"}}
    run = dg.DagsterRun("job", "1" * 8, tags={"dagster-k8s/config": json.dumps(config)})
    launcher = launcher_of("genolewm-daemon")
    with pytest.raises(Exception, match=r"the allowed list: container_config\.image, pod_spec_config\.service"):
        launcher.get_container_context_for_run(run)
    assert launcher.get_container_context_for_run(RUN).namespace == "genolewm"


def test_a_run_is_lost_when_its_job_is_and_not_when_nobody_answers(
    shipped: Shipped, launcher_of: Callable[[str], K8sRunLauncher], caplog: pytest.LogCaptureFixture
) -> None:
    with api_server(shipped.cluster) as url:
        shipped.write_kubeconfig(url)
        daemon = launcher_of("genolewm-daemon")
        gone = daemon.check_run_worker_health(RUN)
        assert (gone.status, gone.msg) == (WorkerStatus.UNKNOWN, f"Job {JOB} could not be found")
        kube = Kube(shipped.cluster, url)
        kube.create(JOB, LISTENS)
        assert daemon.check_run_worker_health(RUN).status is WorkerStatus.RUNNING
        # The web server may not look at Jobs.
        assert launcher_of("genolewm-webserver").check_run_worker_health(RUN).status is WorkerStatus.RUNNING
        (pod,) = eventually(lambda: kube.pods(JOB))
        eventually(lambda: "ImagePullBackOff" in str(daemon.get_run_worker_debug_info(RUN)))
        kube.core().delete_namespaced_pod(pod.metadata.name, "genolewm")
        eventually(lambda: kube.job(JOB).failed)
        assert daemon.check_run_worker_health(RUN).status is WorkerStatus.FAILED
        assert "BackoffLimitExceeded: Job has reached" in str(daemon.get_run_worker_debug_info(RUN))
    caplog.clear()
    shipped.write_kubeconfig("http://127.0.0.1:1")
    assert launcher_of("genolewm-daemon").check_run_worker_health(RUN).status is WorkerStatus.RUNNING
    (warning,) = [record.getMessage() for record in caplog.records if record.name.startswith("dagster.daemon")]
    assert warning.startswith(f"Run {RUN.run_id} is taken for running. Kubernetes does not answer: ")
    assert "Connection refused" in warning
