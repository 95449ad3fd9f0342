"""``deploy/dagster.yaml``: accepted by Dagster, credentials from the environment only, and it works on PostgreSQL."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator

import dagster as dg
import pytest
from dagster._core.instance import InstanceRef
from dagster._core.run_coordinator import QueuedRunCoordinator
from dagster_postgres import DagsterPostgresStorage

from genolewm_assets.defs.engines.op_tags import H100_POOL
from genolewm_assets.defs.read_only_instance import open_read_only
from genolewm_assets.launch import TELEMETRY_OFF
from genolewm_assets_tests.command_line import run
from genolewm_assets_tests.deploy.installation import DEPLOY, REPOSITORY, Installation, settings_of


@pytest.fixture
def instance(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    for name, value in installation.environment().items():
        monkeypatch.setenv(name, value)
    with dg.DagsterInstance.from_ref(InstanceRef.from_dir(str(installation.etc))) as opened:
        yield opened


def test_all_it_takes_from_the_environment_is_in_the_example() -> None:
    taken = set(re.findall(r"\{env: (\w+)\}", (DEPLOY / "dagster.yaml").read_text()))
    example = settings_of((DEPLOY / "genolewm.env.example").read_text())
    assert {"PGHOST", "PGPORT", "PGDATABASE", "PGUSER", "PGPASSWORD"} <= taken
    assert taken <= set(example)
    assert TELEMETRY_OFF.items() <= example.items()
    places = {example[name].partition("/dagster")[0] for name in taken if name.startswith("GENOLEWM_")}
    assert places == {example["GENOLEWM_ROOT"]}


def test_the_example_names_every_variable_of_the_package() -> None:
    sources = (REPOSITORY / "genolewm_assets").rglob("*.py")
    known = {name for path in sources for name in re.findall(r"\bGENOLEWM_[A-Z_]+\b", path.read_text())}
    assert known <= set(settings_of((DEPLOY / "genolewm.env.example").read_text()))


def test_it_says_what_the_deployment_promises(instance: dg.DagsterInstance) -> None:
    reference = instance.get_ref()
    assert isinstance(reference.storage, DagsterPostgresStorage)
    assert isinstance(instance.run_coordinator, QueuedRunCoordinator)
    assert not instance.telemetry_enabled
    assert instance.run_monitoring_enabled
    assert instance.run_launcher.supports_check_run_worker_health
    assert instance.run_retries_enabled
    assert instance.run_retries_max_retries > 0
    concurrency = instance.get_concurrency_config()
    assert concurrency.run_queue_config is not None
    limits = {each["key"]: each["limit"] for each in concurrency.run_queue_config.tag_concurrency_limits}
    # Automation launches backfills too: both tags are on its runs.
    assert limits["dagster/from_automation_condition"] < limits["dagster/backfill"]
    waiting = limits["genolewm/waits_for_runs"]
    assert limits["dagster/backfill"] + waiting < concurrency.run_queue_config.max_concurrent_runs
    assert concurrency.run_queue_config.max_user_code_failure_retries > 0
    assert {"schedule", "sensor"} <= set(instance.get_settings("retention"))


def test_one_step_at_a_time_takes_the_h100(instance: dg.DagsterInstance) -> None:
    storage = instance.event_log_storage
    storage.initialize_concurrency_limit_to_default(H100_POOL)
    assert storage.get_concurrency_info(H100_POOL).slot_count == 1
    first, second = dg.DagsterRun("job", "1" * 32), dg.DagsterRun("job", "2" * 32)
    assert storage.claim_concurrency_slot(H100_POOL, first.run_id, "step").is_claimed
    assert not storage.claim_concurrency_slot(H100_POOL, second.run_id, "step").is_claimed


def test_status_reads_the_history_on_the_server_and_cannot_write_it(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "environ", os.environ.copy())
    for name, value in installation.environment().items():
        monkeypatch.setenv(name, value)
    command = ("status", "--root", installation.root, "--catalog", installation.catalog, "--json")
    with dg.DagsterInstance.from_ref(InstanceRef.from_dir(str(installation.etc))) as instance:
        failed = dg.DagsterRun(job_name="verify_all", status=dg.DagsterRunStatus.STARTED)
        instance.add_run(failed)
        instance.report_run_failed(failed, "The process of this run was killed.")
        assert run(monkeypatch, *command) == 4
        (told,) = [each for each in json.loads(capsys.readouterr().out)["troubles"] if each["kind"] == "failed"]
        assert (told["subject"], told["reason"]) == ("job verify_all", "The process of this run was killed.")
        opened = open_read_only(installation.etc)
        assert opened is not None
        with opened, pytest.raises(Exception, match="read-only transaction"):
            opened.delete_run(failed.run_id)
        assert instance.has_run(failed.run_id)
        instance.delete_run(failed.run_id)
    # A database without Dagster's tables gets none.
    empty = installation.database.create_database("no_tables")
    monkeypatch.setenv("PGDATABASE", empty)
    assert open_read_only(installation.etc) is None
    tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
    assert installation.database.query(tables, database=empty) == "0"
