"""``tuples/frozen``: off unless the catalogue asks; built from the latest package, and read from the root."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import dagster as dg
import numpy as np
import pytest

from genolewm_assets import lewm
from genolewm_assets.defs.assets.graph import ASSETS
from genolewm_assets.defs.assets.packages.frozen import tuples_frozen
from genolewm_assets.defs.runtime.partitions import BY_FROZEN_RELEASE, BY_PACKAGED_RELEASE
from genolewm_assets.packages.references import read_latest
from genolewm_assets.store.artefacts.verify import verify_root
from genolewm_assets.training.batches import encode_targets
from genolewm_assets.training.epoch_checks import FROZEN_CHECKS
from genolewm_assets_tests.worlds.graph.built_world import BuiltWorld
from genolewm_assets_tests.worlds.graph.tiny_world import RELEASES, refusal_of, shown_of
from genolewm_assets_tests.worlds.lewm.frozen_world import assert_same

FIRST, SECOND = RELEASES
#: The asset as a catalogue declares it that asks for epochs; that of the tests' definitions asks for none.
DECLARED = replace(tuples_frozen, partitions=BY_PACKAGED_RELEASE)


@pytest.fixture
def world(copied: BuiltWorld) -> BuiltWorld:
    copied.edit_catalog(packages={"frozen_epochs": 1})
    return copied


def materialize(world: BuiltWorld) -> dg.ExecuteInProcessResult:
    others = [asset for asset in ASSETS if asset.key != dg.AssetKey(DECLARED.path)]
    return world.materialize(DECLARED.key, partition=SECOND, assets=[*others, DECLARED.definition()])


def test_the_asset_is_in_the_graph_without_partitions_unless_the_catalogue_asks() -> None:
    assert tuples_frozen.partitions is BY_FROZEN_RELEASE
    assert tuples_frozen.partitions.keys(None) == []
    assert not tuples_frozen.of_packages


@pytest.mark.nightly
def test_a_trainer_reads_from_the_root_what_it_would_draw(world: BuiltWorld) -> None:
    result = materialize(world)
    assert result.success
    package = world.root / read_latest(world.root, SECOND).path
    live, frozen = lewm.GenoLeWMDataset(package), lewm.GenoLeWMDataset(package, frozen=world.root)
    drawn = list(live)
    assert_same(list(frozen), drawn)
    encoder = world.workspace().load_encoder("cpu")
    np.testing.assert_array_equal(next(iter(frozen)).target_states, encode_targets(drawn[0], encoder))
    published = DECLARED.open(world.workspace(), SECOND)
    assert published.manifest.counts["tuples"] == sum(map(len, drawn))
    assert [(each.asset, each.partition) for each in published.manifest.inputs] == [("packages/split", SECOND)]
    assert verify_root(world.workspace().root) == []
    checks = result.get_asset_check_evaluations()
    assert set(FROZEN_CHECKS) <= {check.check_name for check in checks}
    assert {(check.passed, check.partition) for check in checks} == {(True, SECOND)}

    # What the page says, and that every entry has a meaning.
    shown = shown_of(result, DECLARED.key).metadata
    assert {name for key in tuples_frozen.entry_meanings for name in key.split(", ")} <= set(shown)
    assert shown["epochs"].value == "1"
    assert shown["dagster/partition_row_count"].value == published.manifest.counts["visits"]
    assert shown["shift_median"].value > 0

    # A second run keeps it; another number of epochs or another package makes it stale.
    assert shown_of(materialize(world), DECLARED.key).metadata["reused"].value is True
    assert DECLARED.currency(world.workspace(), SECOND).state == "current"
    world.edit_catalog(packages={"frozen_epochs": 2})
    stale = DECLARED.currency(world.workspace(), SECOND)
    assert (stale.state, stale.reasons) == ("stale", ("recipe epochs: built from 1, now 2",))
    assert not lewm.GenoLeWMDataset(package, frozen=world.root).epoch


@pytest.mark.nightly
def test_a_rebuilt_package_leaves_the_former_epochs_stale(world: BuiltWorld) -> None:
    assert materialize(world).success
    world.edit_catalog(packages={"max_visits": 39})
    world.make("packages/split", SECOND)
    found = DECLARED.currency(world.workspace(), SECOND)
    assert found.state == "stale"
    assert any("packages/split" in reason for reason in found.reasons), found.line()
    assert materialize(world).success
    assert DECLARED.currency(world.workspace(), SECOND).state == "current"
    # Both packages have their own; a trainer's package finds the one that was made from it.
    assert len(list((world.root / "tuples").glob(f"{SECOND}-*"))) == 2
    package = world.root / read_latest(world.root, SECOND).path
    assert len(lewm.GenoLeWMDataset(package, frozen=world.root, allow_unaudited=True))


def test_with_no_epoch_asked_for_a_run_says_what_to_do(world: BuiltWorld) -> None:
    world.edit_catalog(packages={"frozen_epochs": 0})
    said = refusal_of(materialize(world))
    assert "catalog.yaml (packages.frozen_epochs): no epoch is to be frozen: expected at least 1, got 0." in said


#: Prints what the definitions of a catalogue that asks for epochs hold.
DEFINED = """
import json
import dagster as dg
from genolewm_assets.definitions import defs
from genolewm_assets.defs.assets import GATED
from genolewm_assets.defs.operations.build_everything import plan_stages
from genolewm_assets.defs.operations.release_job import RELEASE_ASSETS
from genolewm_assets.defs.runtime import BY_PACKAGED_RELEASE, Workspace, configured_catalog, configured_root
frozen, instance = GATED["tuples/frozen"], dg.DagsterInstance.ephemeral()
instance.add_dynamic_partitions("clinvar_release", ["2024-01-07", "2025-01-05"])
stages = plan_stages(Workspace.open(configured_root(), configured_catalog()), instance, ["2024-01-07", "2025-01-05"])
node = defs.resolve_asset_graph().get(dg.AssetKey(["tuples", "frozen"]))
print(json.dumps({
    "same": frozen.partitions is BY_PACKAGED_RELEASE, "in_release_job": "tuples/frozen" in RELEASE_ASSETS,
    "last_stage": [str(task) for lane in stages[-1] for task in lane], "partitions": node.partitions_def.name,
    "tags": dict(node.tags),
}))
"""


def test_a_catalogue_that_asks_has_a_partition_for_each_packaged_release(world: BuiltWorld) -> None:
    world.edit_catalog(clinvar={"packaged": [SECOND]})
    environment = {**os.environ, "GENOLEWM_CATALOG": str(world.catalog), "GENOLEWM_ROOT": str(world.root)}
    found = json.loads(subprocess.check_output([sys.executable, "-c", DEFINED], env=environment))
    assert (found["same"], found["in_release_job"], found["partitions"]) == (True, False, "clinvar_release")
    assert found["last_stage"] == [f"tuples/frozen[{SECOND}]"]
    assert found["tags"]["genolewm/accelerator"] == "h100"
