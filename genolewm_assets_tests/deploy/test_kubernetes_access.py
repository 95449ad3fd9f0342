"""The web server's role suffices to end a run, and for nothing more; the live test uses those of daemon and runs."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster._serdes import ConfigurableClassData
from dagster_k8s import K8sRunLauncher

from genolewm_assets_tests.servers.kubernetes.api import api_server
from genolewm_assets_tests.servers.kubernetes.kube import LOOPS, Kube, eventually
from genolewm_assets_tests.servers.kubernetes.shipped import Shipped


def test_the_web_server_may_end_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = Shipped(Path("/srv/genolewm"), "sample", Path("/etc/genolewm"), tmp_path / "kubeconfig", {})
    for name, value in shipped.environment_of("genolewm-webserver").items():
        monkeypatch.setenv(name, value)
    settings = shipped.instance_settings()["run_launcher"]
    with api_server(shipped.cluster) as url, dg.DagsterInstance.ephemeral() as instance:
        shipped.write_kubeconfig(url)
        data = ConfigurableClassData(settings["module"], settings["class"], yaml.safe_dump(settings["config"]))
        launcher = data.rehydrate(as_type=K8sRunLauncher)
        launcher.register_instance(instance)
        run = dg.DagsterRun("job", "0" * 8, status=dg.DagsterRunStatus.STARTED)
        instance.add_run(run)
        kube = Kube(shipped.cluster, url)
        kube.create(f"dagster-run-{run.run_id}", LOOPS)
        eventually(lambda: kube.pods(f"dagster-run-{run.run_id}"))
        assert launcher.terminate(run.run_id)
        eventually(lambda: not kube.pods(f"dagster-run-{run.run_id}"))
        assert shipped.cluster.jobs == {}
        assert "cannot get resource" in str(launcher.check_run_worker_health(run).msg)
