"""Sources are observed before anything is built, so that the first daily observation is no change."""

from __future__ import annotations

import re

import dagster as dg

from genolewm_assets.defs.assets.graph import DECLARATIONS
from genolewm_assets.defs.assets.observations import ObservedSource
from genolewm_assets.defs.operations.daily_jobs import observe_new_sources
from genolewm_assets.defs.runtime.partitions import BY_RUN_FOLDER
from genolewm_assets_tests.defs.conftest import unbuilt
from genolewm_assets_tests.worlds.graph.built_world import BuiltWorld

#: Of run folders the tiny world has none, and the daily job leaves them to their sensor.
KEYS = [
    (asset, key)
    for asset in DECLARATIONS
    if isinstance(asset, ObservedSource) and asset.partitions is not BY_RUN_FOLDER
    for key in asset.partitions.keys(None)
]
world = unbuilt


def versions(world: BuiltWorld) -> dict[tuple[str, str | None], list[str | None]]:
    """Return the data versions of all observations of every source, newest first."""
    found = {}
    for asset, key in KEYS:
        wanted = dg.AssetRecordsFilter(dg.AssetKey(asset.path), asset_partitions=None if key is None else [key])
        records = world.instance.fetch_observations(wanted, limit=9).records
        events = [record.asset_observation for record in records]
        found[asset.key, key] = [event and event.tags["dagster/data_version"] for event in events]
    return found


def test_what_was_never_observed_is_observed_once_and_as_by_the_daily_job(world: BuiltWorld) -> None:
    said: list[str] = []
    for _ in range(2):
        observe_new_sources(world.workspace(), world.instance, said.append)
    first = versions(world)
    assert {len(found) for found in first.values()} == {1}
    assert world.run_job("observe_sources").success
    assert versions(world) == {key: found * 2 for key, found in first.items()}
    assert said == []


def test_a_source_that_is_not_there_is_named_and_the_others_are_observed(world: BuiltWorld) -> None:
    (world.folder / "genome.fa.gz").unlink()
    said: list[str] = []
    observe_new_sources(world.workspace(), world.instance, said.append)
    (line,) = said
    assert re.match(r"reference/source was not observed: .*genome\.fa\.gz", line)
    assert [asset for (asset, _), found in versions(world).items() if not found] == ["reference/source"]
