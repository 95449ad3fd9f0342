"""What the sensor and the schedule request where the shard of T0 is missing."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from genolewm_assets.defs.operations.clinvar_sensor import UNPACKAGED_ASSETS, clinvar_release_schedule
from genolewm_assets_tests.worlds.graph.sensor_world import LATER, LATEST, NEW, OLD, Ticks, resource, run_of
from genolewm_assets_tests.worlds.graph.tiny_world import TinyWorld

pytestmark = pytest.mark.usefixtures("inputs_are_there")


@pytest.fixture
def world(unregistered: TinyWorld) -> TinyWorld:
    """Return a world of three releases, of which the first is T0 of the last."""
    unregistered.write_clinvar(LATER, header_date=LATER)
    unregistered.edit_catalog(holdouts={"temporal": {"months": 12}})
    return unregistered


def only_the_shard(request: dg.RunRequest) -> bool:
    return set(request.asset_selection or ()) == {dg.AssetKey(asset.path) for asset in UNPACKAGED_ASSETS}


def test_t0_is_requested_first_and_the_newest_when_its_run_has_ended(world: TinyWorld, ticks: Ticks) -> None:
    assert ticks.tick() == [OLD]
    assert only_the_shard(ticks.launched[0])
    run_of(world, OLD, dg.DagsterRunStatus.STARTED)
    assert [ticks.tick() for _ in range(3)] == [[], [], []]
    (record,) = world.instance.get_run_records()
    world.instance.delete_run(record.dagster_run.run_id)
    # A run that failed holds nothing up: the build of the release names the missing shard.
    run_of(world, OLD, dg.DagsterRunStatus.FAILURE)
    assert ticks.tick() == [LATER]
    assert not only_the_shard(ticks.launched[1])
    run_of(world, LATER, dg.DagsterRunStatus.STARTED)
    assert [ticks.tick() for _ in range(2)] == [[], []]


def test_a_lost_cursor_or_a_crash_loses_no_release(world: TinyWorld, ticks: Ticks) -> None:
    ticks.tick(crash_before_runs=True)
    assert ticks.partitions == [OLD, NEW, LATER]
    run_of(world, OLD, dg.DagsterRunStatus.FAILURE)
    world.write_clinvar(LATEST, header_date=LATEST)
    assert ticks.tick() == [LATEST]


def test_a_published_t0_is_not_requested(world: TinyWorld, ticks: Ticks) -> None:
    world.materialize("reference/genome")
    world.instance.add_dynamic_partitions("clinvar_release", [OLD])
    assert world.materialize("clinvar/release", "clinvar/shard", partition=OLD).success
    assert ticks.tick() == [LATER]


def test_a_release_that_gets_no_package_needs_no_t0(world: TinyWorld, ticks: Ticks) -> None:
    world.edit_catalog(clinvar={"packaged": [NEW]})
    assert ticks.tick() == [LATER]


def test_a_t0_that_the_listing_does_not_offer_holds_nothing_up(world: TinyWorld, ticks: Ticks) -> None:
    world.edit_catalog(holdouts={"temporal": "2020-01-05"})
    assert ticks.tick() == [LATER]


def test_the_schedule_requests_both(world: TinyWorld, tmp_path: Path) -> None:
    # Only an instance on disk can be given to a schedule.
    with (
        dg.DagsterInstance.local_temp(str(tmp_path)) as instance,
        dg.build_schedule_context(instance=instance, resources={"workspace": resource(world)}) as context,
    ):
        requests = clinvar_release_schedule(context)
    assert [request.partition_key for request in requests] == [OLD, LATER]
    assert [only_the_shard(request) for request in requests] == [True, False]
