"""The Kubernetes executor: no resources of its own, settings from the run, nothing for run config, and optional."""

from __future__ import annotations

import sys

import dagster as dg
import pytest
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.executor.init import InitExecutorContext
from dagster._core.system_config.objects import ResolvedRunConfig

from genolewm_assets.defs.engines.forwarded import FORWARDED
from genolewm_assets.defs.engines.k8s_executor import executor_config, make_k8s_executor
from genolewm_assets.errors import ConfigurationError


@pytest.fixture(autouse=True)
def _deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in FORWARDED:
        monkeypatch.delenv(name, raising=False)
    given = {"GENOLEWM_ROOT": "/srv/genolewm", "GENOLEWM_CATALOG": "sample"}
    secrets = {"GENOLEWM_WEBHOOK_URL": "https://hooks.example.org/secret", "PGPASSWORD": "secret"}
    for name, value in {**given, **secrets}.items():
        monkeypatch.setenv(name, value)


def test_the_executor_has_no_resources_and_forwards_the_settings_and_no_secret() -> None:
    assert executor_config({}) == {
        "env_vars": ["GENOLEWM_ROOT=/srv/genolewm", "GENOLEWM_CATALOG=sample"],
        "enable_owner_references": True,
        "step_k8s_config": {
            "pod_spec_config": {"automount_service_account_token": False},
            "job_spec_config": {"active_deadline_seconds": 604_800},
        },
    }


@pytest.mark.parametrize(
    ("name", "value"), [("GENOLEWM_ROOT", "data"), ("GENOLEWM_ROOT", ""), ("GENOLEWM_CATALOG", "conf/catalog.yaml")]
)
def test_a_path_that_no_pod_has_is_refused(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=f"{name}: not a path for every node"):
        executor_config({})


@dg.job(executor_def=make_k8s_executor())
def empty() -> None: ...


def test_run_config_sets_nothing() -> None:
    for config in ({"job_namespace": "other"}, {"step_k8s_config": {}}, {"job_image": "other"}):
        with pytest.raises(dg.DagsterInvalidConfigError):
            dg.validate_run_config(empty, {"execution": {"config": config}})


def test_runs_that_are_not_on_kubernetes_are_refused() -> None:
    config = ResolvedRunConfig.build(empty).execution.execution_engine_config
    with dg.DagsterInstance.ephemeral() as instance:
        context = InitExecutorContext(InMemoryJob(empty), empty.executor_def, config, instance)
        with pytest.raises(ConfigurationError, match=r"expected run_launcher K8sRunLauncher .*deploy/kubernetes"):
            empty.executor_def.executor_creation_fn(context)


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dagster_k8s", None)
    with pytest.raises(ConfigurationError, match=r"'k8s' is not installed\. .*genolewm-assets\[deploy\]"):
        make_k8s_executor()
