"""The Ray executor: no resources of its own, settings from the run, nothing for run config, and optional."""

from __future__ import annotations

import sys

import dagster as dg
import pytest
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.executor.init import InitExecutorContext
from dagster._core.system_config.objects import ResolvedRunConfig

from genolewm_assets.defs.engines.forwarded import FORWARDED
from genolewm_assets.defs.engines.ray_executor import executor_config, make_ray_executor
from genolewm_assets.errors import ConfigurationError
from genolewm_assets_tests.servers.programs import needs_extra

ADDRESS = "http://head.example.org:8265"


@pytest.fixture(autouse=True)
def _deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in FORWARDED:
        monkeypatch.delenv(name, raising=False)
    given = {"GENOLEWM_ROOT": "/srv/genolewm", "GENOLEWM_CATALOG": "sample", "GENOLEWM_RAY_ADDRESS": ADDRESS}
    secrets = {"GENOLEWM_WEBHOOK_URL": "https://hooks.example.org/secret", "PGPASSWORD": "secret"}
    for name, value in {**given, **secrets}.items():
        monkeypatch.setenv(name, value)


def test_the_executor_has_no_resources_and_forwards_the_settings_and_no_secret() -> None:
    forwarded = ["GENOLEWM_ROOT=/srv/genolewm", "GENOLEWM_CATALOG=sample", f"GENOLEWM_RAY_ADDRESS={ADDRESS}"]
    assert executor_config({}) == {"ray": {"address": ADDRESS, "env_vars": forwarded}}
    assert not {"GENOLEWM_WEBHOOK_URL", "GENOLEWM_DEVICE", "GENOLEWM_CACHE"} & set(FORWARDED)


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("GENOLEWM_RAY_ADDRESS", "", "no address of a Ray head"),
        ("GENOLEWM_RAY_ADDRESS", "head:6379", "no address of a Ray head"),
        ("GENOLEWM_ROOT", "data", "not a path for every node"),
        ("GENOLEWM_ROOT", "", "not a path for every node"),
        ("GENOLEWM_CATALOG", "conf/catalog.yaml", "not a path for every node"),
    ],
)
def test_what_no_node_can_use_is_refused(name: str, value: str, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=f"{name}: {problem}"):
        executor_config({})


def test_run_config_sets_nothing_and_resources_come_from_tags_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    needs_extra("ray", "dagster_ray")
    from dagster_ray.core.executor import RayStepHandler
    from ray import job_submission

    @dg.job(executor_def=make_ray_executor())
    def empty() -> None: ...

    with pytest.raises(dg.DagsterInvalidConfigError):
        dg.validate_run_config(empty, {"execution": {"config": {"ray": {"num_cpus": 1}}}})
    monkeypatch.setattr(job_submission, "JobSubmissionClient", lambda address, **_: address)
    config = ResolvedRunConfig.build(empty).execution.execution_engine_config
    with dg.DagsterInstance.ephemeral() as instance:
        context = InitExecutorContext(InMemoryJob(empty), empty.executor_def, config, instance)
        executor = empty.executor_def.executor_creation_fn(context)
    handler = executor._step_handler
    assert isinstance(handler, RayStepHandler)
    assert handler.client == ADDRESS
    assert (handler.num_cpus, handler.num_gpus, handler.memory, handler.resources) == (None,) * 4
    assert handler.runtime_env == {}
    assert "GENOLEWM_ROOT=/srv/genolewm" in handler.env_vars


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dagster_ray", None)
    with pytest.raises(ConfigurationError, match=r"'ray' is not installed\. .*genolewm-assets\[ray\]"):
        make_ray_executor()
