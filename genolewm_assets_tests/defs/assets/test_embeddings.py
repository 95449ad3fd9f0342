"""Each cache that the graph publishes can be searched by window hash; where it cannot, the run says so."""

from __future__ import annotations

import errno
import json
import logging
import os

import dagster as dg
import pytest

from genolewm_assets.defs.runtime import workspace as workspace_module
from genolewm_assets.encoders import PRECISION_SUFFICIENT, STATE_CHECKS, write_tiny_llama
from genolewm_assets.errors import ConfigurationError, CorruptResourceError, RejectedResourceError
from genolewm_assets.states.index import check_cache_index, open_cache_index
from genolewm_assets_tests.worlds.graph.tiny_world import TinyWorld, check_of, refusal_of, shown_of

WINDOWS, CACHE = "windows/index", "embeddings/cache"


@pytest.fixture
def world(world: TinyWorld) -> TinyWorld:
    world.make("reference/genome")
    return world


def said_of_index(result: dg.ExecuteInProcessResult) -> str:
    return str(shown_of(result, "embeddings/cache").metadata["window_hashes"].value)


def test_a_look_up_that_cannot_be_made_is_said_and_the_cache_stays(
    world: TinyWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert world.materialize(WINDOWS, CACHE, partition="chr17").success
    workspace = world.workspace()
    cache = world.open("embeddings/cache", "chr17")
    in_the_way = cache.directory.with_name(f"{cache.directory.name}.rows")
    in_the_way.unlink()
    in_the_way.mkdir()
    result = world.materialize(CACHE, partition="chr17")
    assert result.success
    said = said_of_index(result)
    assert said.startswith(f"embeddings/cache[chr17] is published as {cache.directory.name}, but its windows cannot be")
    assert f"{in_the_way.name}: is a folder, not a look-up" in said
    logged = [entry.user_message for entry in world.instance.all_logs(result.run_id) if entry.level == logging.ERROR]
    assert [line for line in logged if cache.directory.name in line and "genolewm cache index --root" in line]
    with pytest.raises(CorruptResourceError):
        open_cache_index(workspace.root)
    in_the_way.rmdir()
    with monkeypatch.context() as patch:
        patch.setattr("genolewm_assets.defs.assets.embeddings.index_cache", without_maps)
        assert "cannot be searched: [Errno 19] No such device" in said_of_index(
            world.materialize(CACHE, partition="chr17")
        )
    again = world.materialize(CACHE, partition="chr17")
    assert said_of_index(again) == "27 rows"
    assert check_cache_index(workspace.root).rows == 27
    assert world.open("embeddings/cache", "chr17").directory == cache.directory


def without_maps(*_: object) -> None:
    raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))


@pytest.mark.nightly
@pytest.mark.parametrize("compute", ["float32", "bfloat16"])
def test_the_run_states_what_computed_the_states_and_the_manifest_does_not(compute: str, world: TinyWorld) -> None:
    world.write_catalog(compute=compute)
    results = [world.materialize(WINDOWS, CACHE, partition="chr17") for _ in range(2)]
    cache = world.open("embeddings/cache", "chr17")
    for result in results:
        facts = {name: value.value for name, value in shown_of(result, CACHE).metadata.items()}
        expected = {"compute": compute, "dtype": "float32", "windows_encoded": 27, "batch_windows": "1"}
        assert expected.items() <= facts.items()
        assert min(facts["windows_per_s"], facts["share_of_matrix_rate"]) > 0
        assert facts["device"].startswith("cpu")
        precise = check_of(result, PRECISION_SUFFICIENT)
        assert (precise.passed, precise.partition) == (True, "chr17")
        assert precise.metadata["compared"].value == (27 if compute == "bfloat16" else 0)
    names = [check.name for check in cache.manifest.checks]
    # What was built before there was a choice has the manifest that a build of now gives.
    assert set(names) == {*STATE_CHECKS, *([PRECISION_SUFFICIENT] if compute == "bfloat16" else [])}
    assert b"windows_per_s" not in (cache.directory / "manifest.json").read_bytes()


def test_states_that_are_rounded_too_much_are_not_published(world: TinyWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.write_catalog(compute="bfloat16")
    monkeypatch.setattr("genolewm_assets.encoders.precision_check.ROUNDING_BOUND", 0.001)
    result = world.materialize(WINDOWS, CACHE, partition="chr17")
    assert not result.success
    precise = check_of(result, PRECISION_SUFFICIENT)
    assert (precise.passed, precise.severity.value) == (False, "ERROR")
    assert "encoder.compute: float32" in str(precise.metadata)
    with pytest.raises(RejectedResourceError):
        world.open("embeddings/cache", "chr17")


def test_without_a_named_encoder_only_states_are_refused(world: TinyWorld) -> None:
    world.write_catalog(model=None)
    world.make(WINDOWS, "chr17")
    world.make("corpus/records", "eukaryote_generator")
    world.make("corpus/windows", "eukaryote_generator")
    for asset, partition in (("embeddings/cache", "chr17"), ("embeddings/corpus", "eukaryote_generator")):
        said = refusal_of(world.materialize(asset, partition=partition))
        assert "catalog.yaml (encoder.model): no encoder is named, so no states can be computed." in said
        assert "Write 'encoder: {model: carbon-500m, revision: COMMIT}' or 'encoder: {model: /models/NAME}'" in said
    assert not (world.root / "embeddings").exists()
    assert not (world.root / "models").exists()


def test_windows_longer_than_the_context_are_refused_in_the_plan(world: TinyWorld) -> None:
    model = world.folder / "model"
    write_tiny_llama(model)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 201}))
    world.write_catalog(model="./model")
    world.make(WINDOWS, "chr17")
    said = refusal_of(world.materialize(CACHE, partition="chr17"))
    assert "windows are longer than the model's context: expected at most 1,194 bp" in said
    assert not (world.root / "embeddings").exists()
    with pytest.raises(ConfigurationError, match="longer than the model's context"):
        world.workspace().load_encoder("cpu")


def test_the_preset_is_loaded_by_its_hub_id(world: TinyWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = "0123456789" * 4
    asked = []

    def note(model: str, *, download: bool, sha256_of: object, **settings: object) -> None:
        asked.append((model, settings))

    monkeypatch.setattr(workspace_module, "read_identity", note)
    for trusted in (None, "carbon-500m"):
        world.write_catalog(model="carbon-500m", revision=commit, trusted_code=trusted)
        assert world.workspace().encoder_identity is None
    settings = {"revision": commit, "layer": -1, "block_tokens": 64, "dtype": "float32", "compute": "float32"}
    settings["window_bp"] = world.workspace().catalog.window_profile.window_bp
    hub = "HuggingFaceBio/Carbon-500M"
    assert asked == [(hub, {**settings, "trusted_code": None}), (hub, {**settings, "trusted_code": hub})]
