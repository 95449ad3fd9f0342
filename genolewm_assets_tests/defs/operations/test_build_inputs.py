"""What a release reads, and how the sensor waits for it."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from genolewm_assets.defs.assets.graph import ASSETS, GATED
from genolewm_assets.defs.operations.build_everything import BUILD_EVERYTHING
from genolewm_assets.defs.operations.build_inputs import inputs_of, missing_inputs
from genolewm_assets.defs.operations.clinvar_sensor import clinvar_release_schedule
from genolewm_assets.defs.operations.release_job import RELEASE_ASSETS, UNPACKAGED_ASSETS, refresh_release_job
from genolewm_assets.defs.runtime.failures import HELD, HELD_TAG
from genolewm_assets_tests.worlds.graph.built_world import QUIET
from genolewm_assets_tests.worlds.graph.sensor_world import LATER, NEW, OLD, Ticks, resource
from genolewm_assets_tests.worlds.graph.tiny_world import CONTIGS, CORPUS, LINEAR, TinyWorld


@pytest.fixture
def world(unregistered: TinyWorld) -> TinyWorld:
    """Return a world of two releases, of which none gets a package."""
    unregistered.edit_catalog(clinvar={"packaged": []})
    return unregistered


def refresh(world: TinyWorld, release: str) -> dg.ExecuteInProcessResult:
    """Run the job for a release that gets no package."""
    graph = dg.Definitions(assets=ASSETS, jobs=[refresh_release_job], resources={"workspace": resource(world)})
    return graph.resolve_job_def("refresh_release").execute_in_process(
        instance=world.instance,
        partition_key=release,
        asset_selection=[dg.AssetKey(asset.path) for asset in UNPACKAGED_ASSETS],
        run_config=QUIET,
        raise_on_error=False,
    )


def test_a_release_reads_what_the_graph_says_and_makes_the_rest_itself(world: TinyWorld) -> None:
    packaged = [GATED[key] for key in RELEASE_ASSETS]
    found = [(asset.key, key) for asset, key in inputs_of(packaged, NEW, world.instance)]
    assert len(found) == len(set(found))
    assert set(found) == {
        ("reference/genome", None),
        *((asset, name) for asset in ("windows/index", "embeddings/cache") for name in LINEAR),
        *(("gnomad/shard", name) for name in CONTIGS),
        *((asset, name) for asset in ("corpus/windows", "embeddings/corpus") for name in CORPUS),
    }
    assert [asset.key for asset, _ in inputs_of(UNPACKAGED_ASSETS, NEW, world.instance)] == ["reference/genome"]
    missing = missing_inputs(world.workspace(), UNPACKAGED_ASSETS, NEW, world.instance)
    assert [str(each) for each in missing] == ["reference/genome"]


def test_the_sensor_waits_for_what_is_missing_and_requests_the_newest_then(world: TinyWorld, ticks: Ticks) -> None:
    assert [ticks.tick(), ticks.tick()] == [[], []]
    assert ticks.partitions == [OLD, NEW]
    assert ticks.reason() == f"{NEW} waits for reference/genome"
    world.edit_catalog(clinvar={"packaged": None})
    assert ticks.reason().startswith(f"{NEW} waits for reference/genome, windows/index[{LINEAR[0]}], ")
    world.edit_catalog(clinvar={"packaged": []})
    world.make("reference/genome")
    assert [ticks.tick(), ticks.tick()] == [[NEW], []]


def test_the_only_release_waits_too(world: TinyWorld, ticks: Ticks) -> None:
    world.vcf(OLD).unlink()
    assert [ticks.tick(), ticks.tick()] == [[], []]
    world.make("reference/genome")
    assert ticks.tick() == [NEW]


def test_a_build_that_failed_for_a_missing_input_is_requested_when_it_is_there(world: TinyWorld, ticks: Ticks) -> None:
    ticks.tick()
    ticks.cursor = f'{{"newest": "{NEW}"}}'  # it was requested, before the sensor waited for inputs
    assert not refresh(world, NEW).success
    assert ticks.tick() == []
    world.make("reference/genome")
    assert ticks.tick() == [NEW]
    assert ticks.launched[-1].run_key == f"{NEW} after 1 failed"
    assert refresh(world, NEW).success
    assert ticks.tick() == []


def test_a_build_that_failed_for_another_reason_is_not_requested_again(world: TinyWorld, ticks: Ticks) -> None:
    world.write_clinvar(LATER, header_date="2025-03-09")
    ticks.tick()
    assert not refresh(world, LATER).success
    world.make("reference/genome")
    assert [ticks.tick(), ticks.tick()] == [[], []]


def test_the_sensor_waits_while_everything_is_built(world: TinyWorld, ticks: Ticks) -> None:
    world.make("reference/genome")
    run = dg.DagsterRun(job_name=BUILD_EVERYTHING, status=dg.DagsterRunStatus.STARTED)
    world.instance.add_run(run)
    assert ticks.tick() == []
    assert ticks.reason() == f"{NEW} waits for build_everything (run {run.run_id[:8]}), which builds every release"
    world.instance.delete_run(run.run_id)
    assert ticks.tick() == [NEW]


def test_a_run_that_was_cancelled_while_it_was_held_does_not_count(world: TinyWorld, ticks: Ticks) -> None:
    world.make("reference/genome")
    tags = {"dagster/partition": NEW, HELD_TAG: HELD}
    held = dg.DagsterRun(job_name="refresh_release", status=dg.DagsterRunStatus.NOT_STARTED, tags=tags)
    world.instance.add_run(held)
    # `build_everything` is gone: the tick cancels what it left, and asks for the release itself.
    assert ticks.tick() == [NEW]


def test_the_schedule_waits_too(world: TinyWorld, tmp_path: Path) -> None:
    with (
        dg.DagsterInstance.local_temp(str(tmp_path)) as instance,
        dg.build_schedule_context(instance=instance, resources={"workspace": resource(world)}) as context,
    ):
        skipped = clinvar_release_schedule(context)
    assert skipped.skip_message == f"{NEW} waits for reference/genome"
