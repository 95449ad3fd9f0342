"""Run config chooses what a run builds, and neither where, nor from which catalogue, nor with which code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._config import ConfigType

from genolewm_assets.defs.assets import ASSETS
from genolewm_assets.defs.operations import JOBS
from genolewm_assets.defs.runtime.settings import (
    WorkspaceResource,
    configured_batch,
    configured_compute,
    configured_encoder,
    configured_executor,
    configured_resources,
)
from genolewm_assets.defs.runtime.workspace import Workspace
from genolewm_assets.encoders import Compute
from genolewm_assets.errors import ConfigurationError, MissingResourceError
from genolewm_assets.sources.catalog import load_catalog
from genolewm_assets.store.artefacts import Root
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.servers.programs import needs_extra
from genolewm_assets_tests.worlds.graph.tiny_world import TinyWorld

#: Every setting that run config may have. A new one must name neither a path nor code.
SETTINGS = {
    *(f"execution.config.{name}" for name in ("marker_to_close", "max_concurrent")),
    *(f"execution.config.retries.{name}" for name in ("disabled", "enabled")),
    "execution.config.step_dependency_config.require_upstream_step_success",
    *(f"loggers.console.config.{name}" for name in ("log_level", "name")),
    *(f"ops.delete_superseded_runs.config.{name}" for name in ("dry_run", "evaluations_days", "older_than_days")),
    *("ops.end_failures.config.release", "ops.request_backfill.config.force"),
    "ops.clinvar__changes.config.predecessor",
}

ELSEWHERE: dict[str, dict[str, Any]] = {
    "root": {"resources": {"workspace": {"config": {"root": "/elsewhere"}}}},
    "catalog": {"resources": {"workspace": {"config": {"catalog": "/elsewhere/catalog.yaml"}}}},
    "base_dir": {"resources": {"io_manager": {"config": {"base_dir": "/elsewhere"}}}},
    "start_method": {"execution": {"config": {"start_method": {"forkserver": {"preload_modules": ["elsewhere"]}}}}},
}


def deploy(world: TinyWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENOLEWM_ROOT", str(world.root))
    monkeypatch.setenv("GENOLEWM_CATALOG", str(world.catalog))


@pytest.fixture(params=["in_process", "multiprocess", "ray", "slurm"])
def graph(request: pytest.FixtureRequest, world: TinyWorld, monkeypatch: pytest.MonkeyPatch) -> dg.Definitions:
    """Return the graph as ``definitions`` makes it, with each executor."""
    if request.param == "ray":
        needs_extra("ray", "dagster_ray")
    deploy(world, monkeypatch)
    monkeypatch.setenv("GENOLEWM_EXECUTOR", request.param)
    return dg.Definitions(assets=ASSETS, jobs=JOBS, resources=configured_resources(), executor=configured_executor())


def settings(config: ConfigType, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the settings below a type of config; a step that reads no config takes any and is left out."""
    fields = getattr(config, "fields", None)
    if fields:
        for name, field in fields.items():
            yield from settings(field.config_type, (*path, name))
    elif (fields is None and not (path[0] == "ops" and config.given_name == "Any")) or path[-2:-1] == ("retries",):
        yield ".".join(path)


def test_no_setting_names_a_path_or_code(graph: dg.Definitions) -> None:
    jobs = graph.get_repository_def().get_all_jobs()
    assert len(jobs) == len(JOBS) + 1
    found = {name for job in jobs for name in settings(job.run_config_schema.config_type)}
    assert found <= SETTINGS
    assert "ops.clinvar__changes.config.predecessor" in found


@each_row("name", ELSEWHERE)
def test_a_run_config_that_names_another_place_is_refused(graph: dg.Definitions, name: str) -> None:
    for job in graph.get_repository_def().get_all_jobs():
        if name in {"root", "catalog"} and job.name in {"purge_old_runs", "rebuild_embeddings", "dismiss_release"}:
            continue  # they know no workspace
        with pytest.raises(dg.DagsterInvalidConfigError, match=f'unexpected config entry "{name}"'):
            dg.validate_run_config(job, ELSEWHERE[name])


def test_a_run_builds_in_the_root_of_the_deployment(world: TinyWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    deploy(world, monkeypatch)
    selection = dg.AssetSelection.assets(dg.AssetKey(["reference", "genome"]))
    run = dg.materialize(ASSETS, selection=selection, resources=configured_resources(), instance=world.instance)
    assert run.success
    assert any((world.root / "reference").rglob("genome.fa.gz"))


def test_a_value_that_a_step_returns_is_refused() -> None:
    @dg.op
    def returns_a_value() -> int:
        return 1

    @dg.job(resource_defs={"io_manager": configured_resources()["io_manager"]})
    def keeps_a_value() -> None:
        returns_a_value()

    with pytest.raises(ConfigurationError, match="values are not kept: expected None, got int"):
        keeps_a_value.execute_in_process()


def test_how_states_are_computed_may_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("GENOLEWM_COMPUTE", "GENOLEWM_BATCH_WINDOWS")
    for name in names:
        monkeypatch.delenv(name, raising=False)
    for values, expected in (((), (None, None)), (("", ""), (None, None)), (("bfloat16", "32"), ("bfloat16", 32))):
        for name, value in zip(names, values, strict=False):
            monkeypatch.setenv(name, value)
        batch = configured_batch()
        assert (configured_compute(), batch["batch_windows"], batch["compiler"]) == (*expected, None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("GENOLEWM_COMPUTE", "float16"), ("GENOLEWM_WITHOUT_STATES", "yes")),
        *(("GENOLEWM_BATCH_WINDOWS", "many"), ("GENOLEWM_BATCH_WINDOWS", "-1")),
    ],
)
def test_what_is_no_such_setting_is_refused(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    configured = configured_batch if name == "GENOLEWM_BATCH_WINDOWS" else configured_encoder
    with pytest.raises(ConfigurationError, match=name):
        configured()


def test_a_precision_replaces_that_of_the_catalogue(world: TinyWorld) -> None:
    plain = WorkspaceResource(str(world.root), str(world.catalog)).open()
    low = WorkspaceResource(str(world.root), str(world.catalog), "bfloat16").open()
    assert low.encoder_identity == replace(plain.encoder_identity, compute=Compute.BFLOAT16)


@pytest.mark.parametrize(("value", "with_states"), [("1", False), ("0", True), ("", True)])
def test_the_environment_may_turn_the_encoder_off(
    world: TinyWorld, monkeypatch: pytest.MonkeyPatch, value: str, *, with_states: bool
) -> None:
    places = {"GENOLEWM_ROOT": str(world.root), "GENOLEWM_CATALOG": str(world.catalog)}
    for name, text in {**places, "GENOLEWM_WITHOUT_STATES": value}.items():
        monkeypatch.setenv(name, text)
    assert WorkspaceResource.configured().open().with_states is with_states


def test_an_unknown_executor_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENOLEWM_EXECUTOR", "dask")
    with pytest.raises(ConfigurationError, match="in_process or multiprocess or ray or k8s or slurm, got 'dask'"):
        configured_executor()


def test_a_url_is_only_resolved(tmp_path: Path) -> None:
    workspace = Workspace(Root(tmp_path), load_catalog("sample"))
    with pytest.raises(MissingResourceError, match=r"simulated sources are not there\. Run genolewm demo"):
        workspace.url(workspace.catalog.genome.fasta)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.nightly
def test_the_simulated_sources_are_there_once_a_root_is_opened(tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path, "sample")
    assert Path(workspace.url(workspace.catalog.genome.fasta)).is_file()
