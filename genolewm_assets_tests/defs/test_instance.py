"""Runs and events lie under the root, whether or not ``DAGSTER_HOME`` is set."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import dagster as dg
import pytest
from dagster._cli.utils import get_possibly_temporary_instance_for_cli
from dagster._core.instance.ref import InstanceRef

from genolewm_assets.defs.instance import RootInstance
from genolewm_assets_tests.places import REPOSITORY


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory of a person who types ``dagster dev``, which holds the settings of the checkout."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    shutil.copyfile(REPOSITORY / "dagster.yaml", folder / "dagster.yaml")
    monkeypatch.chdir(folder)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.delenv("GENOLEWM_ROOT", raising=False)
    return folder


def run_something() -> tuple[Path, str]:
    """Create a run as a command of Dagster would; return the folder of the instance and the id of the run."""
    with get_possibly_temporary_instance_for_cli("dagster dev") as instance:
        assert isinstance(instance, RootInstance)
        run = instance.create_run_for_job(dg.GraphDefinition("nothing").to_job())
        return Path(instance.root_directory), run.run_id


@pytest.mark.parametrize("root", [None, "elsewhere/root"])
def test_without_a_home_runs_lie_under_the_root_and_stay(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: str | None
) -> None:
    expected = checkout / "data/dagster"
    if root is not None:
        monkeypatch.setenv("GENOLEWM_ROOT", str(tmp_path / root))
        expected = tmp_path / root / "dagster"
    folder, run_id = run_something()
    assert folder == expected
    # Of the next start, and of `genolewm ui`, which sets the variable.
    with get_possibly_temporary_instance_for_cli("dagster dev") as again:
        assert again.has_run(run_id)
    shutil.copyfile(REPOSITORY / "dagster.yaml", expected / "dagster.yaml")
    monkeypatch.setenv("DAGSTER_HOME", str(expected))
    with dg.DagsterInstance.get() as instance:
        assert instance.has_run(run_id)


def test_a_run_of_this_process_belongs_to_the_code_location_that_the_ui_loads(checkout: Path) -> None:
    location = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["dg"]["project"]["code_location_name"]
    _, run_id = run_something()
    with get_possibly_temporary_instance_for_cli("dagster dev") as instance:
        run = instance.get_run_by_id(run_id)
    assert run is not None
    assert run.remote_job_origin is not None
    assert run.remote_job_origin.location_name == location
    assert run.tags_for_storage()[".dagster/repository"] == f"__repository__@{location}"


def test_other_processes_are_given_the_same_folder(checkout: Path) -> None:
    with get_possibly_temporary_instance_for_cli("dagster dev") as instance:
        ref = instance.get_ref()
    stated = [ref.storage_data, ref.local_artifact_storage_data, ref.compute_logs_data]
    assert all(str(checkout / "data/dagster") in data.config_yaml for data in stated if data is not None)


def test_an_instance_with_a_folder_of_its_own_stays_there(checkout: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    shutil.copyfile(checkout / "dagster.yaml", home / "dagster.yaml")
    ref = InstanceRef.from_dir(str(home))
    assert str(home) in ref.local_artifact_storage_data.config_yaml
    assert not (checkout / "data").exists()
