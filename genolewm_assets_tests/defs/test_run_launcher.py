"""A started run is known by its process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster._core.launcher import WorkerStatus

from genolewm_assets.defs.run_launcher import MachineRunLauncher
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
    assert isinstance(launcher, MachineRunLauncher)
    assert launcher.supports_check_run_worker_health
    return launcher.check_run_worker_health(run).status


def sleeping_process() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])


def test_running_process_is_there_and_a_killed_one_is_not(instance: dg.DagsterInstance) -> None:
    worker = sleeping_process()
    try:
        run = started_run(instance, worker.pid)
        assert status_of(instance, run) is WorkerStatus.RUNNING
        worker.kill()
        os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
        assert status_of(instance, run) is WorkerStatus.NOT_FOUND, "dead, and nobody has asked how it ended"
    finally:
        worker.kill()
        worker.wait()
    assert status_of(instance, run) is WorkerStatus.NOT_FOUND


def test_a_later_process_with_the_same_number_is_another(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = sleeping_process()
    try:
        with monkeypatch.context() as patch:
            # The machine's clock when the run's own process spoke: an hour before this one began.
            now = time.time()
            patch.setattr(time, "time", lambda: now - 3_600)
            run = started_run(instance, worker.pid)
        assert status_of(instance, run) is WorkerStatus.NOT_FOUND
    finally:
        worker.kill()
        worker.wait()


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
        run = instance.get_run_by_id(run_id)
        assert run is not None
        assert run.tags["dagster/will_retry"] == retried, op.name


def test_settings_bury_dead_runs_and_launch_them_again() -> None:
    settings = yaml.safe_load(SETTINGS.read_text())
    assert settings["run_monitoring"]["enabled"]
    assert settings["run_monitoring"]["free_slots_after_run_end_seconds"]
    assert settings["run_retries"]["enabled"]
    assert settings["run_retries"]["max_retries"]
    assert settings["run_retries"]["retry_on_asset_or_op_failure"], "a lost database fails a step"
