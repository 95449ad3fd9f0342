"""The jobs: what they take, what they run, and what they ask the daemon for."""

from __future__ import annotations

import logging
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.execution.backfill import BulkActionStatus
from dagster._core.test_utils import create_test_daemon_workspace_context
from dagster._core.workspace.load_target import ModuleTarget
from dagster._daemon.backfill import execute_backfill_iteration

from genolewm_assets.definitions import defs
from genolewm_assets.defs.operations.clinvar_sensor import clinvar_release_sensor
from genolewm_assets.defs.operations.release_job import RELEASE_ASSETS
from genolewm_assets.defs.runtime.automation import REFRESH_TAG
from genolewm_assets.defs.runtime.gates import BUILD_AGAIN_TAG
from genolewm_assets.sources.catalog import load_catalog
from genolewm_assets_tests.worlds.graph.built_world import QUIET, BuiltWorld
from genolewm_assets_tests.worlds.graph.tiny_world import CORPUS, LINEAR, RELEASES

#: Jobs that schedules run, daily or weekly; others wait for a person or a sensor.
SCHEDULED = {
    **dict.fromkeys(("report_status", "check_current", "observe_sources"), "* * *"),
    **{"verify_all": "* * 0", "purge_old_runs": "* * 0", "refresh_release": "* * 2"},
}
STATES = {*(("cache", name) for name in LINEAR), *(("corpus", name) for name in CORPUS)}
OTHERS = {"build_everything", "rebuild_embeddings", "dismiss_release"}


def test_the_jobs_are_these_and_by_itself_runs_what_costs_nothing_dear() -> None:
    jobs = {job.name for job in defs.resolve_all_job_defs() if not job.name.startswith("__")}
    assert jobs == SCHEDULED.keys() | OTHERS
    repository = defs.get_repository_def()
    times = {each.job_name: str(each.cron_schedule).split() for each in repository.schedule_defs}
    assert {job: " ".join(days) for job, (min_, hour, *days) in times.items() if (min_ + hour).isdigit()} == SCHEDULED
    assert {each.default_status for each in repository.schedule_defs} == {dg.DefaultScheduleStatus.RUNNING}
    running = {each.name for each in repository.sensor_defs if each.default_status is dg.DefaultSensorStatus.RUNNING}
    assert {each.name for each in repository.sensor_defs} - running == {"gpu_automation_sensor"}
    assert clinvar_release_sensor.minimum_interval_seconds == load_catalog("sample").clinvar.listing_interval_s == 30


def test_refresh_release_makes_one_release_and_no_states() -> None:
    job = defs.resolve_job_def("refresh_release")
    assert {key.to_user_string() for key in job.asset_layer.selected_asset_keys} == set(RELEASE_ASSETS)
    assert job.partitions_def.name == "clinvar_release"
    assert REFRESH_TAG in job.tags


def test_refresh_release_hands_the_predecessor_over(unbuilt: BuiltWorld) -> None:
    """As the sensor asks for it: by configuration of one op."""
    world, new = unbuilt, "2025-06-01"
    world.register_release(new)
    world.make("reference/genome")
    for release in RELEASES:
        assert world.materialize("clinvar/release", "clinvar/shard", partition=release).success
    ops = {"clinvar__changes": {"config": {"predecessor": RELEASES[0]}}}
    result = world.run_job("refresh_release", partition_key=new, run_config={**QUIET, "ops": ops})
    made = {event.asset_key.to_user_string() for event in result.all_events if event.is_step_materialization}
    # Holdouts have no windows to work on here; what comes before them was made.
    assert made == {"clinvar/release", "clinvar/shard", "clinvar/changes"}
    assert world.open("clinvar/changes", new).manifest.recipe["predecessor"] == RELEASES[0]


def request_backfill(instance: dg.DagsterInstance, **config: bool) -> str:
    run_config = {"ops": {"request_backfill": {"config": config}}}
    result = defs.resolve_job_def("rebuild_embeddings").execute_in_process(instance=instance, run_config=run_config)
    assert result.success
    (backfill,) = instance.get_backfills()
    return backfill.backfill_id


def test_rebuild_embeddings_asks_for_every_partition_that_needs_an_h100() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("corpus_piece", list(CORPUS))
        request_backfill(instance)
        (backfill,) = instance.get_backfills()
        assert (backfill.status, backfill.title) == (BulkActionStatus.REQUESTED, "rebuild_embeddings")
        target = backfill.get_asset_backfill_data(defs.resolve_asset_graph()).target_subset
        found = {(pair.asset_key.path[1], pair.partition_key) for pair in target.iterate_asset_partitions()}
        assert (found, backfill.tags) == (STATES, {})


def test_force_asks_for_a_second_build_of_what_is_kept() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        request_backfill(instance, force=True)
        (backfill,) = instance.get_backfills()
        assert backfill.tags == {BUILD_AGAIN_TAG: "true"}


@pytest.mark.nightly
def test_the_daemon_launches_one_run_per_partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dagster's own backfill daemon takes the request and submits runs, with our code in a server of its own."""
    monkeypatch.setenv("GENOLEWM_ROOT", str(tmp_path / "root"))
    overrides = {
        "telemetry": {"enabled": False},
        "run_coordinator": {"module": "dagster.core.run_coordinator", "class": "QueuedRunCoordinator"},
    }
    target = ModuleTarget("genolewm_assets.definitions", None, working_directory=None, location_name="here")
    (tmp_path / "history").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "history"), overrides=overrides) as instance:
        instance.add_dynamic_partitions("corpus_piece", list(CORPUS))
        backfill_id = request_backfill(instance)
        with create_test_daemon_workspace_context(target, instance) as workspace:
            list(execute_backfill_iteration(workspace, logging.getLogger("backfill")))
        runs = instance.get_runs(dg.RunsFilter(tags={"dagster/backfill": backfill_id}))
        assert all(run.status is dg.DagsterRunStatus.QUEUED for run in runs)
        found = {(key.path[1], run.tags["dagster/partition"]) for run in runs for key in run.asset_selection or ()}
        assert (found, len(runs)) == (STATES, len(STATES))
