"""Pods of runs and steps as Kubernetes gets them: from op tags, executor and the shipped launcher together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import kubernetes_validate
import pytest
import yaml
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.executor.init import InitExecutorContext
from dagster._core.system_config.objects import ResolvedRunConfig
from dagster._serdes import ConfigurableClassData
from dagster_k8s import K8sRunLauncher
from dagster_k8s.container_context import K8sContainerContext
from dagster_k8s.job import construct_dagster_k8s_job
from kubernetes.client import ApiClient

from genolewm_assets.defs.engines.k8s_executor import make_k8s_executor
from genolewm_assets.defs.engines.op_tags import cpu_op_tags, h100_op_tags
from genolewm_assets_tests.servers.kubernetes.api import kubeconfig
from genolewm_assets_tests.servers.kubernetes.manifests import FOLDER, schema_fault, security_faults
from genolewm_assets_tests.servers.kubernetes.shipped import some_nodes

#: By kind of pod: tags of the op (none where the op has none, nor a run) and the node that fits.
KINDS: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "cpu": (cpu_op_tags(), "cpu-1"),
    "h100": (h100_op_tags(), "h100-1"),
    "waiting": ({}, "cpu-1"),
    "run": ({}, "cpu-1"),
}
VERSIONS = ("1.29", kubernetes_validate.latest_version())
RUN = dg.DagsterRun("job", "1" * 32)


@pytest.fixture(autouse=True)
def _deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENOLEWM_ROOT", "/srv/genolewm")
    monkeypatch.setenv("GENOLEWM_IMAGE", "registry.example.org/genolewm:0.1.0")


@dg.job(executor_def=make_k8s_executor())
def empty() -> None: ...


def rendered(kind: str, folder: Path, further: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the Job of a run or of a step; ``further`` is added to ``run_k8s_config`` of the shipped launcher."""
    file = folder / "kubeconfig"
    file.write_text(kubeconfig("http://127.0.0.1:1"))
    shipped = yaml.safe_load((FOLDER / "dagster.yaml").read_text())["run_launcher"]
    config = {**shipped["config"], "load_incluster_config": False, "kubeconfig_file": str(file)}
    for section, keys in (further or {}).items():
        config["run_k8s_config"].setdefault(section, {}).update(keys)
    data = ConfigurableClassData(shipped["module"], shipped["class"], yaml.safe_dump(config))
    launcher = data.rehydrate(as_type=K8sRunLauncher)
    context = launcher.get_container_context_for_run(RUN) if kind == "run" else _of_step(KINDS[kind][0], launcher)
    job = construct_dagster_k8s_job(
        context.get_k8s_job_config(None, launcher),
        args=["dagster", "api", "execute_step"],
        job_name="dagster-step-1",
        component="run_worker" if kind == "run" else "step_worker",
        user_defined_k8s_config=context.run_k8s_config,
    )
    found: dict[str, Any] = ApiClient().sanitize_for_serialization(job)
    return found


def _of_step(tags: Mapping[str, Any], launcher: K8sRunLauncher) -> K8sContainerContext:
    """Return what Dagster's own step handler merges for a step."""
    config = ResolvedRunConfig.build(empty).execution.execution_engine_config
    with dg.DagsterInstance.ephemeral() as instance:
        instance._run_launcher = launcher
        creation = InitExecutorContext(InMemoryJob(empty), empty.executor_def, config, instance)
        handler = empty.executor_def.executor_creation_fn(creation)._step_handler._handler
    step = SimpleNamespace(
        dagster_run=RUN,
        instance=SimpleNamespace(run_launcher=launcher),
        execute_step_args=SimpleNamespace(step_keys_to_execute=["step"]),
        step_tags={"step": {key: json.dumps(value) for key, value in tags.items()}},
        get_step_context=lambda _: SimpleNamespace(step=SimpleNamespace(op_name="step")),
    )
    found: K8sContainerContext = handler._get_container_context(step)
    return found


def pod_of(job: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = job["spec"]["template"]["spec"]
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_kubernetes_takes_the_job_and_the_pod_is_confined_and_fits_its_nodes_alone(kind: str, tmp_path: Path) -> None:
    job = rendered(kind, tmp_path)
    for version in VERSIONS:
        assert schema_fault(job, version) is None
    pod = pod_of(job)
    (container,) = pod["containers"]
    assert list(security_faults(pod)) == []
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert pod["automountServiceAccountToken"] is (kind == "run")
    assert pod["restartPolicy"] == "Never"
    assert [node.name for node in some_nodes() if not node.refusal(pod)] == [KINDS[kind][1]]
    annotations = job["spec"]["template"]["metadata"]["annotations"]
    assert annotations == {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts == {"/etc/genolewm", "/srv/genolewm", "/tmp", "/var/cache/genolewm"}
    assert {volume["name"] for volume in pod["volumes"]} == {mount["name"] for mount in container["volumeMounts"]}
    sources = [name for each in container["envFrom"] for name in (source["name"] for source in each.values())]
    assert sources == ["genolewm-settings", "genolewm-database"]
    given = {each["name"]: each.get("value") for each in container["env"]}
    assert given.get("GENOLEWM_ROOT") == (None if kind == "run" else "/srv/genolewm")


def test_a_step_is_given_up_before_its_run_is_and_one_that_waits_is_as_small(tmp_path: Path) -> None:
    longest_s = yaml.safe_load((FOLDER / "dagster.yaml").read_text())["run_monitoring"]["max_runtime_seconds"]
    jobs = {kind: rendered(kind, tmp_path) for kind in KINDS}
    deadlines = {kind: job["spec"].get("activeDeadlineSeconds") for kind, job in jobs.items()}
    assert deadlines["cpu"] == deadlines["h100"] < longest_s
    assert (deadlines["waiting"], deadlines["run"]) == (longest_s, None)
    asked = {kind: pod_of(job)["containers"][0]["resources"] for kind, job in jobs.items()}
    assert asked["waiting"] == asked["run"]
    assert asked["run"] not in (asked["cpu"], asked["h100"])


@pytest.mark.parametrize("kind", ["cpu", "h100"])
def test_what_an_administrator_adds_to_the_launcher_does_not_move_a_step(kind: str, tmp_path: Path) -> None:
    any_node = {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [any_node]}]}
    added = {
        "pod_spec_config": {
            "nodeSelector": {"pool": "small"},
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
            "priorityClassName": "low",
        },
        "pod_template_spec_metadata": {"labels": {"team": "genomes"}},
    }
    before, after = rendered(kind, tmp_path), rendered(kind, tmp_path, added)
    assert pod_of(after).get("affinity") == pod_of(before).get("affinity")
    # A selector of the launcher narrows where CPU steps run; H100 steps bring their own.
    assert pod_of(after)["nodeSelector"] == (pod_of(before)["nodeSelector"] if kind == "h100" else {"pool": "small"})
    assert pod_of(after)["priorityClassName"] == "low"
    assert after["spec"]["template"]["metadata"]["labels"]["team"] == "genomes"
    assert list(security_faults(pod_of(after))) == []
