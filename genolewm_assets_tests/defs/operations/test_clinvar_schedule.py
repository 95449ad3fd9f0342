"""The weekly schedule behind the ClinVar sensor."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from genolewm_assets.definitions import defs
from genolewm_assets.defs.operations import clinvar_sensor
from genolewm_assets.defs.operations.clinvar_sensor import clinvar_release_schedule, clinvar_release_sensor
from genolewm_assets.defs.operations.jobs import refresh_release_job
from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.sources.clinvar.releases import LEDGER
from genolewm_assets_tests.defs.operations.conftest import unregistered
from genolewm_assets_tests.servers.web_server import WebServer
from genolewm_assets_tests.worlds.graph.sensor_world import NEW, OLD, Ticks, resource, run_of
from genolewm_assets_tests.worlds.graph.tiny_world import TinyWorld

pytestmark = [pytest.mark.usefixtures("inputs_are_there"), pytest.mark.usefixtures("stored")]
world = unregistered


@pytest.fixture
def stored(world: TinyWorld, tmp_path: Path) -> Iterator[None]:
    """Give the world an instance on disk: a schedule opens it by its address."""
    with dg.DagsterInstance.local_temp(str(tmp_path)) as world.instance:
        yield


def weekly(world: TinyWorld) -> dg.RunRequest | str:
    """Evaluate the schedule once; returns the request, or why there is none."""
    with schedule_context(world) as context:
        result = clinvar_release_schedule(context)
    return result if isinstance(result, dg.RunRequest) else str(result.skip_message)


def schedule_context(world: TinyWorld, **options: object) -> dg.ScheduleEvaluationContext:
    options |= {"scheduled_execution_time": datetime(2025, 5, 6, 6, tzinfo=UTC), "instance": world.instance}
    return dg.build_schedule_context(resources={"workspace": resource(world)}, **options)


def test_the_weekly_schedule_registers_and_requests_what_has_no_package(world: TinyWorld, ticks: Ticks) -> None:
    request = dg.RunRequest(job_name="refresh_release", partition_key=NEW)
    assert weekly(world) == request
    assert ticks.partitions == [OLD, NEW]
    run_of(world, NEW, dg.DagsterRunStatus.STARTED)
    assert weekly(world) == f"a run for {NEW} is in progress"
    assert ticks.tick() == []


def test_dagster_takes_the_request_for_a_partition_of_the_same_tick(world: TinyWorld) -> None:
    graph = dg.Definitions(
        assets=defs.assets,
        resources={"workspace": resource(world)},
        jobs=[refresh_release_job],
        sensors=[clinvar_release_sensor],
        schedules=[clinvar_release_schedule],
    )
    with schedule_context(world, repository_def=graph.get_repository_def()) as context:
        (request,) = clinvar_release_schedule.evaluate_tick(context).run_requests or ()
    assert request.partition_key == request.tags["dagster/partition"] == NEW
    assert set(graph.resolve_job_def("refresh_release").asset_layer.executable_asset_keys) >= {
        dg.AssetKey(asset.path) for asset in clinvar_sensor.UNPACKAGED_ASSETS
    }


def test_the_weekly_schedule_repeats_what_failed_until_it_is_published(world: TinyWorld) -> None:
    world.edit_catalog(clinvar={"packaged": [OLD]})
    for status in (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED, dg.DagsterRunStatus.SUCCESS):
        run_of(world, NEW, status)
    assert weekly(world).asset_selection is not None  # type: ignore[union-attr]
    world.materialize("reference/genome")
    assert world.materialize("clinvar/release", "clinvar/shard", partition=NEW).success
    assert weekly(world) == f"clinvar/shard[{NEW}] is published: 2 offered, newest {NEW}"
    world.vcf(NEW).with_suffix(".gz.md5").write_bytes(b"")
    assert str(weekly(world)).startswith(f"clinvar/shard[{NEW}] is published: 1 offered, newest {OLD}; not")


def test_the_weekly_schedule_survives_a_listing_that_fails(world: TinyWorld, site: WebServer) -> None:
    world.edit_catalog(clinvar={"listing": site.url("nowhere")})
    assert "no such listing" in str(weekly(world))
    site.files["data/"] = b""
    world.edit_catalog(clinvar={"listing": site.url("data")})
    assert weekly(world) == "0 offered"
    (world.root / LEDGER).parent.mkdir()
    (world.root / LEDGER).write_bytes(b"{}")
    with pytest.raises(CorruptResourceError):
        weekly(world)
