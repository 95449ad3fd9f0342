"""Packages without states (``encoder: off``): what they say, what trainers read, and the way to states and back."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from genolewm_assets.defs.assets.graph import GATED
from genolewm_assets.errors import ConfigurationError
from genolewm_assets.lewm import GenoLeWMDataset, as_tensors
from genolewm_assets.packages.pointer import current_folder
from genolewm_assets.packages.references import read_latest
from genolewm_assets.verification.records import verify_whole_root
from genolewm_assets_tests.worlds.graph.built_world import BuiltWorld
from genolewm_assets_tests.worlds.graph.tiny_world import RELEASES, check_of

SECOND = RELEASES[1]
ENCODER = {"model": "tiny-llama-random", "dtype": "float32"}


@pytest.fixture
def world(copied: BuiltWorld) -> BuiltWorld:
    copied.edit_catalog(encoder="off")
    return copied


def folder(world: BuiltWorld) -> Path:
    """Return the package in use, which is that of the second release."""
    path = current_folder(world.root)
    assert path.resolve() == (world.root / read_latest(world.root, SECOND).path).resolve()
    return path


def test_a_package_has_the_same_tuples_with_states_and_without(world: BuiltWorld) -> None:
    with_states = folder(world)
    result = world.materialize("packages/split", "packages/audit", partition=SECOND)
    assert result.success
    figures = check_of(result, "caches_match_windows").metadata
    assert (figures["compared"].value, figures["not_compared"].value) == (0, "declared without states")
    shown = world.make("packages/current")
    bare = folder(world)
    assert bare != with_states

    # What it says of itself, and what the audit says.
    info = json.loads((bare / "package.json").read_text())
    assert (info["caches"], info["sources"]["encoder"]) == ([], "none: built without states")
    assert "**This package has no states.**" in (bare / "README.md").read_text()
    assert "This package has no states" not in (with_states / "README.md").read_text()
    audit = json.loads(world.open("packages/audit", SECOND).file("report.json").read_text())
    assert audit["verdict"] == "clean"
    (states,) = (each for each in audit["results"] if each["kind"] == "state_mismatch")
    assert states["verdict"] == "not_applicable"
    assert states["reason"].startswith("the package was built without states")
    assert verify_whole_root(world.workspace().root) == []

    # A trainer reads what it reads of the package with states, but for these.
    tokens = GenoLeWMDataset.current(world.root, with_states=False, seed=7)
    both = GenoLeWMDataset(with_states, seed=7, allow_unaudited=True)
    assert tokens.n_batches == both.n_batches > 1
    for ours, theirs in zip(tokens, both, strict=True):
        for name in ("window_ids", "origins", "start", "is_reverse"):
            assert np.array_equal(getattr(ours.windows, name), getattr(theirs.windows, name))
        assert list(ours.source_windows) == list(theirs.source_windows)
        one, other = as_tensors(ours), as_tensors(theirs)
        assert other.pop("source_states").shape[0] == len(theirs)
        assert one.keys() == other.keys() >= {"target_tokens", "edit_alt", "label"}
        assert [name for name in one if not torch.equal(one[name], other[name])] == []
    for opened in (lambda: GenoLeWMDataset(bare), lambda: GenoLeWMDataset.current(world.root)):
        with pytest.raises(ConfigurationError, match=r"was built without states\. Pass with_states=False") as refused:
            opened()
        assert "\n" not in str(refused.value)
    world.edit_catalog(encoder=ENCODER)
    encoder = world.workspace().load_encoder("cpu")
    live, cached = (
        next(iter(GenoLeWMDataset(path, seed=7, allow_unaudited=True, windows_per_batch=2, **options)))
        for path, options in ((bare, {"encoder": encoder}), (with_states, {}))
    )
    torch.testing.assert_close(as_tensors(live)["source_states"], as_tensors(cached)["source_states"])
    # The page of the package in use gives lines that open it.
    exec(re.fullmatch(r"```python\n(.*)\n``` *", shown.metadata["open"].value, re.DOTALL)[1], {})


@pytest.mark.nightly
def test_a_root_may_change_to_states_and_back(world: BuiltWorld) -> None:
    first, split = folder(world), GATED["packages/split"]
    stale = split.currency(world.workspace(), SECOND)
    assert (stale.state, "embeddings/cache[chr17]" in str(stale.reasons)) == ("stale", True)
    found = []
    for encoder in ("off", ENCODER, "off"):
        world.edit_catalog(encoder=encoder)
        assert world.run_job("refresh_release", partition_key=SECOND).success
        world.make("packages/current")
        assert split.currency(world.workspace(), SECOND).state == "current"
        assert GATED["packages/audit"].currency(world.workspace(), SECOND).state == "current"
        found.append(folder(world))
    assert found[1] == first
    assert found[0] == found[2] != first


def test_without_the_encoder_states_are_refused(world: BuiltWorld) -> None:
    result = world.materialize("embeddings/cache", partition="chr17")
    said = str(check_of(result, "inputs_accepted").metadata["error"].value)
    assert "catalog.yaml (encoder.model): states are off (encoder: off in the catalogue" in said
    assert said.endswith("Name a model, and unset GENOLEWM_WITHOUT_STATES.")


#: Loads the definitions of a catalogue without states: what they ask for, first and after a holdout has changed.
DEFINED = """
import json, sys
from pathlib import Path
from genolewm_assets_tests.worlds.graph.quick_dagster import install
install()
from genolewm_assets_tests.worlds.graph.built_world import Automation, BuiltWorld
from genolewm_assets.defs.assets import GATED, PUBLISHING
from genolewm_assets.defs.operations.build_everything import plan_stages
from genolewm_assets.defs.operations.build_inputs import missing_inputs
from genolewm_assets.defs.status import read_status
world = BuiltWorld.opened(Path(sys.argv[1]))
stages = plan_stages(world.workspace(), world.instance, ["2024-01-07", "2025-01-05"])
missing = missing_inputs(world.workspace(), [GATED["packages/split"]], "2025-01-05", world.instance)
asked, automation = [], Automation(world)
world.make("holdouts/manifest", "2025-01-05")
for _ in range(4):
    cpu, gpu = automation.tick()
    asked.append([{name: sorted(map(str, keys)) for name, keys in each.items()} for each in (cpu, gpu)])
    assert all(success for *_, success in automation.run(cpu))
status = read_status(world.workspace(), world.instance, PUBLISHING)
backfill = world.run_job("rebuild_embeddings")
print(json.dumps({
    "partitions": [GATED[name].partitions.keys(world.instance)
                   for name in ("embeddings/cache", "embeddings/corpus", "tuples/frozen")],
    "tasks": [str(task) for stage in stages for lane in stage for task in lane],
    "missing": list(map(str, missing)),
    "asked": asked,
    "backfilled": backfill.success or len(world.instance.get_backfills()),
    "troubles": [f"{each.kind}: {each.subject}" for each in status.troubles],
}))
"""


@pytest.mark.nightly
def test_no_state_is_asked_for_or_missed(world: BuiltWorld) -> None:
    world.edit_catalog(packages={"frozen_epochs": 1}, holdouts={"validation_windows": 3})
    environment = {**os.environ, "GENOLEWM_CATALOG": str(world.catalog), "GENOLEWM_ROOT": str(world.root)}
    words = [sys.executable, "-c", DEFINED, str(world.folder)]
    found = json.loads(subprocess.check_output(words, env=environment).splitlines()[-1])
    assert found["partitions"] == [[], [], []]
    assert (found["missing"], found["backfilled"]) == ([], 0)
    assert not [task for task in found["tasks"] if task.startswith(("embeddings/", "tuples/"))]
    asked = [cpu for cpu, gpu in found["asked"] if not gpu]
    assert asked[:3] == [{"packages/split": [SECOND]}, {"packages/audit": [SECOND]}, {"packages/current": ["None"]}]
    assert asked[3] == {}
    assert [each for each in found["troubles"] if "embeddings" in each or "tuples" in each] == []
