"""``deploy/ray``: settings, units, manifest and instructions of a cluster agree with each other and with the code."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from genolewm_assets.defs.engines.forwarded import FORWARDED
from genolewm_assets.defs.engines.op_tags import CPU_RESOURCE, accelerator_resource, cpu_op_tags, h100_op_tags
from genolewm_assets.defs.engines.ray_executor import ADDRESS_VARIABLE
from genolewm_assets.launch import TELEMETRY_OFF
from genolewm_assets_tests.deploy.installation import DEPLOY, UNITS, Installation, settings_of
from genolewm_assets_tests.deploy.test_units import analyze
from genolewm_assets_tests.servers.programs import needs_extra

RAY = DEPLOY / "ray"
NODES = ("head", "cpu", "h100")
EXAMPLE = settings_of((DEPLOY / "genolewm.env.example").read_text())


def unit(node: str) -> dict[str, str]:
    return settings_of((RAY / f"systemd/genolewm-ray-{node}.service").read_text())


def start_options(node: str) -> dict[str, str]:
    """Return the options of a unit's ``ray start``; empty where an option has no value."""
    words = shlex.split(unit(node)["ExecStart"])
    assert words[:2] == ["/opt/genolewm/venv/bin/ray", "start"]
    return {name: value for name, _, value in (word.partition("=") for word in words[2:])}


def manifest_groups() -> dict[str, dict[str, Any]]:
    spec = yaml.safe_load((RAY / "raycluster.yaml").read_text())["spec"]
    return {"head": spec["headGroupSpec"], **{group["groupName"]: group for group in spec["workerGroupSpecs"]}}


def container_of(group: dict[str, Any]) -> dict[str, Any]:
    (container,) = group["template"]["spec"]["containers"]
    return dict(container)


def environment_of(group: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in container_of(group)["env"]}


def test_the_instance_is_that_of_one_machine_but_for_the_launcher() -> None:
    one, several = (yaml.safe_load(path.read_text()) for path in (DEPLOY / "dagster.yaml", RAY / "dagster.yaml"))
    launcher, monitoring = several.pop("run_launcher"), several.pop("run_monitoring")
    one.pop("run_launcher")
    # A run that may be resumed does not end its steps when it is cancelled.
    assert monitoring == {**one.pop("run_monitoring"), "max_resume_run_attempts": 0}
    assert several == one
    assert (launcher["module"], launcher["class"]) == ("dagster_ray", "RayRunLauncher")
    ray = launcher["config"]["ray"]
    assert ray.keys() == {"address", "env_vars"}
    assert tuple(ray["env_vars"]) == (*FORWARDED, ADDRESS_VARIABLE)
    assert ray["address"] == {"env": "GENOLEWM_RAY_ADDRESS"}


def test_dagster_takes_the_settings(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    launchers = needs_extra("ray", "dagster_ray")
    from dagster import DagsterInstance
    from dagster._core.instance import InstanceRef

    folder = installation.folder / "ray"
    folder.mkdir()
    (folder / "dagster.yaml").write_text(installation.moved((RAY / "dagster.yaml").read_text()))
    for name, value in installation.environment(GENOLEWM_RAY_ADDRESS="http://127.0.0.2:8265").items():
        monkeypatch.setenv(name, value)
    with DagsterInstance.from_ref(InstanceRef.from_dir(str(folder))) as instance:
        launcher = instance.run_launcher
        assert isinstance(launcher, launchers.RayRunLauncher)
        assert launcher.address == "http://127.0.0.2:8265"
        assert (launcher.num_cpus, launcher.num_gpus, launcher.memory, launcher.resources) == (None,) * 4
        assert instance.run_monitoring_max_resume_run_attempts == 0


@pytest.mark.parametrize("node", NODES)
def test_no_node_starts_without_a_token_or_with_telemetry(node: str) -> None:
    assert EXAMPLE["RAY_AUTH_MODE"] == "token"
    assert unit(node)["AssertPathExists"] == EXAMPLE["RAY_AUTH_TOKEN_PATH"]
    assert "--disable-usage-stats" in start_options(node)
    environment = environment_of(manifest_groups()[node])
    assert environment["RAY_AUTH_MODE"] == "token"
    assert TELEMETRY_OFF.items() <= environment.items()
    assert {name for name in EXAMPLE if name.startswith("RAY_")} - {"RAY_AUTH_TOKEN_PATH"} <= environment.keys()
    for name in environment.keys() & EXAMPLE.keys() - {"GENOLEWM_RAY_ADDRESS"}:
        assert environment[name] == EXAMPLE[name]


def test_steps_fit_the_nodes_that_the_units_and_the_manifest_start() -> None:
    groups = manifest_groups()
    marks = {node: set(json.loads(start_options(node).get("--resources", "{}"))) for node in NODES}
    assert marks == {"head": {CPU_RESOURCE}, "cpu": {CPU_RESOURCE}, "h100": set()}
    in_pods = {
        node: set(json.loads(group["rayStartParams"].get("resources", "{}").strip("'")))
        for node, group in groups.items()
    }
    assert (in_pods["cpu"], in_pods["h100"]) == ({CPU_RESOURCE}, set())
    # Ray itself declares the card where it finds one.
    assert set(cpu_op_tags()["dagster-ray/config"]["resources"]) == {CPU_RESOURCE}
    assert set(h100_op_tags()["dagster-ray/config"]["resources"]) == {accelerator_resource()}
    for node in ("head", "cpu"):
        assert (start_options(node)["--num-gpus"], groups[node]["rayStartParams"]["num-gpus"]) == ("0", "0")
    pod, wanted = groups["h100"]["template"]["spec"], h100_op_tags()["dagster-k8s/config"]
    assert pod["nodeSelector"] == wanted["pod_spec_config"]["node_selector"]
    assert pod["tolerations"] == wanted["pod_spec_config"]["tolerations"]
    assert container_of(groups["h100"])["resources"]["limits"]["nvidia.com/gpu"] == "1"


@pytest.mark.parametrize("node", NODES)
def test_pods_are_confined(node: str) -> None:
    pod = manifest_groups()[node]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["automountServiceAccountToken"] is False
    confined = container_of(manifest_groups()[node])["securityContext"]
    assert (confined["readOnlyRootFilesystem"], confined["allowPrivilegeEscalation"]) == (True, False)


def test_systemd_accepts_the_units_and_they_are_confined(installation: Installation, tmp_path: Path) -> None:
    folder = tmp_path / "etc/systemd/system"
    shutil.copytree(RAY / "systemd", folder)
    shutil.copytree(UNITS / "genolewm-.service.d", folder / "genolewm-.service.d")
    for node in NODES:
        name = f"genolewm-ray-{node}.service"
        done = analyze(tmp_path, "security", "--offline=yes", f"--root={tmp_path}", "--threshold=20", name)
        assert done.returncode == 0, done.stdout + done.stderr
    for path in folder.rglob("*.*"):
        if path.is_file():
            # Any program that is there, so that systemd looks at the rest; the extra may not be installed.
            text = path.read_text().replace("/opt/genolewm/venv/bin/ray", "/bin/true")
            path.write_text(installation.moved(text))
    done = analyze(folder, "verify", "--man=no", *(f"./genolewm-ray-{node}.service" for node in NODES))
    assert [line for line in (done.stdout + done.stderr).splitlines() if "genolewm-ray" in line] == []
