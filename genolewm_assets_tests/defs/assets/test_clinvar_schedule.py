"""The weekly schedule behind the ClinVar sensor."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest
import tenacity

from genolewm_assets.definitions import defs
from genolewm_assets.defs.operations import clinvar_sensor
from genolewm_assets.defs.operations.clinvar_sensor import clinvar_release_schedule, clinvar_release_sensor
from genolewm_assets.defs.operations.jobs import refresh_release_job
from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.sources.catalog import load_catalog
from genolewm_assets.sources.clinvar.releases import LEDGER
from genolewm_assets_tests.servers.web_server import WebServer
from genolewm_assets_tests.worlds.graph.sensor_world import (
    NEW,
    OLD,
    RELEASE,
    SHARD,
    Ticks,
    assume_inputs,
    change_catalog,
    resource,
    run_of,
    unregistered_world,
    vcf,
)
from genolewm_assets_tests.worlds.graph.tiny_world import TinyWorld


@pytest.fixture
def world(tmp_path: Path) -> TinyWorld:
    return unregistered_world(tmp_path / "world")


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clinvar_sensor, "_PAUSE", tenacity.wait_none())
    assume_inputs(monkeypatch)


@pytest.fixture
def ticks(world: TinyWorld) -> Ticks:
    return Ticks(world)


@pytest.fixture
def stored(world: TinyWorld, tmp_path: Path) -> Iterator[None]:
    """Give the world an instance on disk: a schedule opens it by its address."""
    with dg.DagsterInstance.local_temp(str(tmp_path)) as world.instance:
        yield


def weekly(world: TinyWorld) -> dg.RunRequest | str:
    """Evaluate the schedule once; returns the request, or why there is none."""
    moment = datetime(2025, 5, 6, 6, tzinfo=UTC)
    resources = {"workspace": resource(world)}
    with dg.build_schedule_context(
        instance=world.instance, scheduled_execution_time=moment, resources=resources
    ) as context:
        result = clinvar_release_schedule(context)
    assert isinstance(result, dg.RunRequest | dg.SkipReason)
    return result if isinstance(result, dg.RunRequest) else str(result.skip_message)


@pytest.mark.usefixtures("stored")
def test_the_weekly_schedule_registers_and_requests_what_has_no_package(world: TinyWorld, ticks: Ticks) -> None:
    request = dg.RunRequest(job_name="refresh_release", partition_key=NEW)
    assert weekly(world) == request
    assert ticks.partitions == [OLD, NEW]
    run_of(world, NEW, dg.DagsterRunStatus.STARTED)
    assert weekly(world) == f"a run for {NEW} is in progress"
    assert ticks.tick() == []


@pytest.mark.usefixtures("stored")
def test_dagster_takes_the_request_for_a_partition_of_the_same_tick(world: TinyWorld) -> None:
    graph = dg.Definitions(
        assets=defs.assets,
        resources={"workspace": resource(world)},
        jobs=[refresh_release_job],
        sensors=[clinvar_release_sensor],
        schedules=[clinvar_release_schedule],
    )
    moment, resources = datetime(2025, 5, 6, 6, tzinfo=UTC), {"workspace": resource(world)}
    with dg.build_schedule_context(
        instance=world.instance,
        scheduled_execution_time=moment,
        repository_def=graph.get_repository_def(),
        resources=resources,
    ) as context:
        (request,) = clinvar_release_schedule.evaluate_tick(context).run_requests or ()
    assert request.partition_key == request.tags["dagster/partition"] == NEW
    assert set(graph.resolve_job_def("refresh_release").asset_layer.executable_asset_keys) >= {
        dg.AssetKey(asset.path) for asset in clinvar_sensor.UNPACKAGED_ASSETS
    }


@pytest.mark.usefixtures("stored")
def test_the_weekly_schedule_repeats_what_failed_until_it_is_published(world: TinyWorld) -> None:
    change_catalog(world, packaged=[OLD])
    for status in (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED, dg.DagsterRunStatus.SUCCESS):
        run_of(world, NEW, status)
    request = weekly(world)
    assert isinstance(request, dg.RunRequest)
    assert request.asset_selection is not None
    world.materialize("reference/genome")
    assert world.materialize(RELEASE, SHARD, partition=NEW).success
    assert weekly(world) == f"clinvar/shard[{NEW}] is published: 2 offered, newest {NEW}"
    vcf(world, NEW).with_suffix(".gz.md5").write_bytes(b"")
    assert str(weekly(world)).startswith(f"clinvar/shard[{NEW}] is published: 1 offered, newest {OLD}; not")


@pytest.mark.usefixtures("stored")
def test_the_weekly_schedule_survives_a_listing_that_fails(world: TinyWorld, site: WebServer) -> None:
    change_catalog(world, listing=site.url("nowhere"))
    assert "no such listing" in str(weekly(world))
    site.files["data/"] = b""
    change_catalog(world, listing=site.url("data"))
    assert weekly(world) == "0 offered"
    (world.root / LEDGER).parent.mkdir()
    (world.root / LEDGER).write_bytes(b"{}")
    with pytest.raises(CorruptResourceError):
        weekly(world)


def test_both_are_on_and_look_as_often_as_the_catalogue_says() -> None:
    assert clinvar_release_sensor.name == "clinvar_release_sensor"
    assert clinvar_release_sensor.default_status is dg.DefaultSensorStatus.RUNNING
    assert clinvar_release_sensor.minimum_interval_seconds == load_catalog("sample").clinvar.listing_interval_s == 30
    assert clinvar_release_sensor.job.name == "refresh_release"
    assert clinvar_release_schedule.name == "clinvar_release_schedule"
    assert clinvar_release_schedule.default_status is dg.DefaultScheduleStatus.RUNNING
    assert clinvar_release_schedule.cron_schedule == "0 6 * * 2"
    assert refresh_release_job.name == clinvar_release_schedule.job_name
