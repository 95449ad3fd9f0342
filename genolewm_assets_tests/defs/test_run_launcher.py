"""A started run is known by its process; runs and events lie under the root, whatever ``DAGSTER_HOME`` is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster._cli.utils import get_possibly_temporary_instance_for_cli
from dagster._core.instance.ref import InstanceRef
from dagster._core.launcher import CheckRunHealthResult, WorkerStatus
from dagster_k8s import K8sRunLauncher
from dagster_k8s.job import get_job_name_from_run_id

from genolewm_assets.defs.engines.k8s_launcher import KubernetesRunLauncher
from genolewm_assets.defs.runtime.failure_hook import report_failure
from genolewm_assets_tests.places import REPOSITORY

SETTINGS = REPOSITORY / "dagster.yaml"


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    (tmp_path / "dagster.yaml").write_text(SETTINGS.read_text())
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        yield instance


def started_run(instance: dg.DagsterInstance, pid: int | None) -> dg.DagsterRun:
    """Return a run whose worker said its process id, as Dagster has it say it."""
    run = instance.create_run_for_job(dg.GraphDefinition("nothing").to_job(), status=dg.DagsterRunStatus.STARTED)
    instance.report_engine_event("Executing steps in process (pid: 1)", run)
    if pid is not None:
        instance.report_engine_event(f"Started process for run (pid: {pid}).", run)
    return run


def status_of(instance: dg.DagsterInstance, run: dg.DagsterRun) -> WorkerStatus:
    launcher = instance.run_launcher
    assert launcher.supports_check_run_worker_health
    return launcher.check_run_worker_health(run).status


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        yield process
        process.kill()


def test_running_process_is_there_and_a_killed_one_is_not(
    instance: dg.DagsterInstance, worker: subprocess.Popen[bytes]
) -> None:
    run = started_run(instance, worker.pid)
    assert status_of(instance, run) is WorkerStatus.RUNNING
    worker.kill()
    os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
    assert status_of(instance, run) is WorkerStatus.NOT_FOUND, "dead, and nobody has asked how it ended"
    worker.wait()
    assert status_of(instance, run) is WorkerStatus.NOT_FOUND


def test_a_later_process_of_this_number_differs(
    instance: dg.DagsterInstance, worker: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    with monkeypatch.context() as patch:
        # The machine's clock when the run's own process spoke: an hour before this one began.
        patch.setattr(time, "time", lambda: now - 3_600)
        run = started_run(instance, worker.pid)
    assert status_of(instance, run) is WorkerStatus.NOT_FOUND


def test_run_without_a_process_of_its_own_is_left_alone(instance: dg.DagsterInstance) -> None:
    assert status_of(instance, started_run(instance, None)) is WorkerStatus.RUNNING


def test_only_a_run_that_states_why_it_failed_stays_failed(instance: dg.DagsterInstance) -> None:
    @dg.op
    def refuses() -> None:
        raise dg.Failure("a check failed", allow_retries=False)

    @dg.op
    def loses_its_accelerator() -> None:
        raise dg.Failure("the accelerator failed", allow_retries=True)

    @dg.op
    def loses_its_database() -> None:
        raise ConnectionError("server closed the connection unexpectedly")

    for op, retried in ((refuses, "false"), (loses_its_accelerator, "true"), (loses_its_database, "true")):
        job = dg.GraphDefinition(f"job_{op.name}", node_defs=[op]).to_job(hooks={report_failure})
        run_id = job.execute_in_process(instance=instance, raise_on_error=False).run_id
        assert instance.get_run_by_id(run_id).tags["dagster/will_retry"] == retried, op.name


def test_settings_bury_dead_runs_and_launch_them_again() -> None:
    settings = yaml.safe_load(SETTINGS.read_text())
    assert all(settings["run_monitoring"][name] for name in ("enabled", "free_slots_after_run_end_seconds"))
    # A lost database fails a step.
    assert all(settings["run_retries"][name] for name in ("enabled", "max_retries", "retry_on_asset_or_op_failure"))


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory of a person who types ``dagster dev``, which holds the settings of the checkout."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    shutil.copyfile(SETTINGS, folder / "dagster.yaml")
    monkeypatch.chdir(folder)
    for name in ("DAGSTER_HOME", "GENOLEWM_ROOT"):
        monkeypatch.delenv(name, raising=False)
    return folder


def run_something() -> tuple[Path, str]:
    """Create a run as a command of Dagster would; return the folder of the instance and the id of the run."""
    with get_possibly_temporary_instance_for_cli("dagster dev") as instance:
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


def test_a_run_of_kubernetes_is_lost_when_its_job_is_and_not_when_nobody_answers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = dg.DagsterRun("job", "1" * 8)
    launcher = KubernetesRunLauncher.__new__(KubernetesRunLauncher)
    gone = f"Job {get_job_name_from_run_id(run.run_id)} could not be found"
    for answer, status in (
        (CheckRunHealthResult(WorkerStatus.UNKNOWN, gone), WorkerStatus.UNKNOWN),
        (CheckRunHealthResult(WorkerStatus.UNKNOWN, "no route to host"), WorkerStatus.RUNNING),
        (CheckRunHealthResult(WorkerStatus.FAILED), WorkerStatus.FAILED),
        (CheckRunHealthResult(WorkerStatus.RUNNING), WorkerStatus.RUNNING),
    ):
        monkeypatch.setattr(K8sRunLauncher, "check_run_worker_health", lambda self, run, answer=answer: answer)
        assert launcher.check_run_worker_health(run).status is status
    (warning,) = caplog.messages
    assert warning.endswith("no route to host")
