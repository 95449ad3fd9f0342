"""Runs are copies of one loaded process, and yet processes of their own: what ends one leaves the others alone."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster._core.launcher import WorkerStatus
from dagster._core.remote_origin import ManagedGrpcPythonEnvCodeLocationOrigin
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import ModuleTarget

from genolewm_assets_tests.places import REPOSITORY
from genolewm_assets_tests.worlds.graph import waiting_job

pytestmark = pytest.mark.nightly

MODULE = waiting_job.__name__
#: Seconds to wait for a run or its end on a busy machine.
PATIENCE_S = 90.0
WAITS = {"wait_for_local_processes_on_shutdown": True}


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    # The server needs the history until its runs have ended, as long as this folder is there.
    settings = {**yaml.safe_load((REPOSITORY / "dagster.yaml").read_text()), "code_servers": WAITS}
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(settings))
    with dg.DagsterInstance.from_config(str(tmp_path)) as opened:
        yield opened


@pytest.fixture
def launch(instance: dg.DagsterInstance, tmp_path: Path) -> Iterator[Callable[[], str]]:
    """Return a function that launches a run in one code server, and returns its id once it is at work."""
    target = ModuleTarget(MODULE, None, None, MODULE)
    with WorkspaceProcessContext(instance, target) as process:
        request = process.create_request_context()
        (repository,) = request.get_code_location(MODULE).get_repositories().values()
        origin = repository.get_full_job("waiting").get_remote_origin()
        assert isinstance(origin.repository_origin.code_location_origin, ManagedGrpcPythonEnvCodeLocationOrigin)

        def launch() -> str:
            config = {"ops": {"waits": {"config": {"folder": str(tmp_path)}}}}
            run = instance.create_run_for_job(
                waiting_job.waiting, run_config=config, remote_job_origin=origin, job_code_origin=None
            )
            instance.launch_run(run.run_id, process.create_request_context())
            wait_for(lambda: (tmp_path / run.run_id).is_file() and bool((tmp_path / run.run_id).read_text()))
            return run.run_id

        yield launch
        (tmp_path / "end").touch()


def _processes(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the process of each run, and its parent."""
    said = {path.name: path.read_text().split() for path in folder.iterdir() if path.name.count("-") == 4}
    return {run: (int(own), int(parent)) for run, (own, parent) in said.items()}


def wait_for(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_killed_run_and_a_cancelled_one_leave_the_others(
    instance: dg.DagsterInstance, launch: Callable[[], str], tmp_path: Path
) -> None:
    killed, cancelled, left = launch(), launch(), launch()
    processes = _processes(tmp_path)
    assert len({own for own, _ in processes.values()}) == 3
    assert len({parent for _, parent in processes.values()}) == 1, "copies of one process"
    loaded = Path(f"/proc/{processes[left][1]}/cmdline").read_bytes()
    assert b"forkserver" in loaded

    os.kill(processes[killed][0], signal.SIGKILL)
    launcher = instance.run_launcher

    def health(run: str) -> WorkerStatus:
        found = instance.get_run_by_id(run)
        assert found is not None
        return launcher.check_run_worker_health(found).status

    wait_for(lambda: health(killed) is WorkerStatus.NOT_FOUND or instance.get_run_by_id(killed).is_finished)
    assert launcher.terminate(cancelled)
    wait_for(lambda: instance.get_run_by_id(cancelled).status is dg.DagsterRunStatus.CANCELED)
    assert health(left) is WorkerStatus.RUNNING
    another = launch()
    (tmp_path / "end").touch()
    for run in (left, another):
        wait_for(lambda run=run: instance.get_run_by_id(run).is_finished)
        assert instance.get_run_by_id(run).status is dg.DagsterRunStatus.SUCCESS
    wait_for(lambda: instance.get_run_by_id(killed).status is dg.DagsterRunStatus.FAILURE)
