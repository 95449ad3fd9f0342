"""A refused release: what it did not reach is no failure, what follows it says why, and its failures end."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext

import dagster as dg
import pytest
from dagster._core.definitions.partitions.context import partition_loading_context
from dagster._core.storage.partition_status_cache import get_and_update_asset_status_cache_value

from genolewm_assets.defs.assets.graph import GATED, PUBLISHING
from genolewm_assets.defs.operations import refusals
from genolewm_assets.defs.runtime.partitions import clinvar_release_partitions
from genolewm_assets.defs.runtime.release_age import NEWEST_RELEASE_BUILT
from genolewm_assets.defs.runtime.settings import WorkspaceResource
from genolewm_assets.defs.status.release_table import ReleaseRow, read_release_table
from genolewm_assets.defs.status.report import read_status
from genolewm_assets.errors import MissingResourceError
from genolewm_assets.sources.clinvar.listing import read_listing
from genolewm_assets.sources.clinvar.releases import register_releases
from genolewm_assets_tests.defs.conftest import copied
from genolewm_assets_tests.worlds.graph.built_world import BuiltWorld
from genolewm_assets_tests.worlds.graph.tiny_world import RELEASES

BAD, GOOD = "2025-06-01", "2025-06-08"
OF_RELEASES = {key: each for key, each in GATED.items() if each.partitions.definition is clinvar_release_partitions}
CAUSE = "release_key_equals_header_date"

world = copied


def offer(world: BuiltWorld, release: str, *, header_date: str | None = None) -> dg.ExecuteInProcessResult:
    """Publish a release, and run what the sensor would ask for."""
    world.register_release(release, header_date=header_date)
    register_releases(world.root, read_listing(str(world.folder / "clinvar")))
    return world.materialize(*OF_RELEASES.keys() - {"tuples/frozen", "packages/evaluation"}, partition=release)


def red(world: BuiltWorld) -> dict[str, set[str]]:
    """Return what the UI shows as failed of the assets of releases: partitions, and checks by name."""
    found: dict[str, set[str]] = {}
    with partition_loading_context(None, world.instance):
        for key, asset in OF_RELEASES.items():
            path, definition = dg.AssetKey(asset.path), asset.partitions.definition
            names = (*asset.check_names, *asset.advisory_names)
            checks = [(dg.AssetCheckKey(path, name), definition) for name in names]
            states = world.instance.event_log_storage.get_asset_check_state(checks)
            cache = get_and_update_asset_status_cache_value(world.instance, path, definition, world.instance)
            failed = cache.deserialize_failed_partition_subsets(definition).get_partition_keys() if cache else ()
            told = {
                check.name
                for check, state in states.items()
                for status, subset in state.subsets.items()
                if status.value in ("FAILED", "EXECUTION_FAILED") and not subset.is_empty
            }
            if told or failed:
                found[key] = {*told, *failed}
    return found


def refused_sensor(world: BuiltWorld, run_id: str) -> object:
    """Let the sensor see a failed run."""
    run = world.instance.get_run_by_id(run_id)
    events = (entry.dagster_event for entry in world.instance.all_logs(run_id))
    event = next(each for each in events if each and each.event_type is dg.DagsterEventType.RUN_FAILURE)
    context = dg.build_run_status_sensor_context(
        sensor_name="refused_release_sensor",
        dagster_event=event,
        dagster_instance=world.instance,
        dagster_run=run,
        resources={"workspace": WorkspaceResource(root=str(world.root), catalog=str(world.catalog))},
    )
    return refusals.refused_release_sensor(context.for_run_failure())


def table(world: BuiltWorld) -> dict[str, ReleaseRow]:
    return {row.release: row for row in read_release_table(world.workspace(), world.instance)}


def age_on(world: BuiltWorld, asset: str) -> Mapping[str, object]:
    """Return the latest evaluation of the age of an asset, as the UI shows it."""
    key = dg.AssetCheckKey(dg.AssetKey(asset.split("/")), NEWEST_RELEASE_BUILT)
    (record,) = world.instance.event_log_storage.get_asset_check_execution_history(key, limit=1)
    evaluation = record.event.dagster_event.asset_check_evaluation_data
    return {"passed": evaluation.passed, **{name: each.value for name, each in evaluation.metadata.items()}}


def test_a_refused_release_says_why_and_its_failures_end(world: BuiltWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    assert red(world) == {}
    refused = offer(world, BAD, header_date=GOOD)
    assert not refused.success
    # Of the checks, only the one that failed is red; whatever was to be built of the release is not there.
    assert red(world) == {key: {BAD, CAUSE} if key == "clinvar/release" else {BAD} for key in red(world)}
    refused_sensor(world, refused.run_id)
    for asset in ("packages/current", "clinvar/shard"):
        age = age_on(world, asset)
        assert (age["passed"], age["run"]) == (False, refused.run_id)
        assert all(said in str(age["reason"]) for said in (f"{BAD} was refused: clinvar/release[{BAD}]", CAUSE))
        assert "Open the run" in str(age["remedy"])
    others = {RELEASES[1]: "served", RELEASES[0]: "built"}
    assert {release: row.state for release, row in table(world).items()} == {BAD: "refused", **others}
    row, checks = table(world)[BAD], "/assets/clinvar/release?view=checks"
    assert (row.run_id, CAUSE in row.why) == (refused.run_id, True)
    assert row.pages == {"run": f"/runs/{refused.run_id}", "failed checks and rows": checks}
    world.instance.add_run_tags(refused.run_id, {"dagster/will_retry": "true"})
    assert {release: row.state for release, row in table(world).items()} == {BAD: "waiting", **others}
    world.instance.add_run_tags(refused.run_id, {"dagster/will_retry": "false"})

    monkeypatch.setattr(refusals, "open_instance", lambda: nullcontext(world.instance))
    assert f"clinvar/release[{BAD}]" in refusals.run_dismissal(world.graph, BAD)
    assert red(world) == {}
    # It is not forgotten, and the release in use is still late.
    assert table(world)[BAD].state == "refused"
    troubles = read_status(world.workspace(), world.instance, PUBLISHING).troubles
    assert {trouble.kind for trouble in troubles} == {"late", "missing"}
    with pytest.raises(MissingResourceError, match="no build of it has failed"):
        refusals.run_dismissal(world.graph, BAD)
    # Without the run, the root still knows why.
    world.instance.delete_run(refused.run_id)
    assert (table(world)[BAD].state, CAUSE in table(world)[BAD].why) == ("refused", True)


@pytest.mark.nightly
def test_a_newer_release_ends_the_failures_of_older_ones(world: BuiltWorld) -> None:
    assert not offer(world, BAD, header_date=GOOD).success
    assert offer(world, GOOD).success
    assert red(world)["clinvar/release"] == {BAD, CAUSE}
    world.make("packages/current")
    assert red(world) == {}
    assert read_status(world.workspace(), world.instance, PUBLISHING).is_well
    assert [(key, row.state) for key, row in table(world).items()][:2] == [(GOOD, "served"), (BAD, "refused")]
    assert age_on(world, "packages/current")["passed"]


def test_a_run_of_no_release_is_not_the_sensors(world: BuiltWorld) -> None:
    run = dg.DagsterRun(job_name="verify_all", status=dg.DagsterRunStatus.STARTED)
    world.instance.add_run(run)
    world.instance.report_run_failed(run, "the disk is full")
    assert isinstance(refused_sensor(world, run.run_id), dg.SkipReason)
