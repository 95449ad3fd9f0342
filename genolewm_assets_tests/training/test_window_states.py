"""States of a live encoder equal those that a cache of the same encoder holds, and no other encoder is accepted."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from genolewm_assets import encoders, lewm
from genolewm_assets.errors import ConfigurationError, CorruptResourceError, MissingResourceError
from genolewm_assets.packages.reader import open_available, open_package, open_tables
from genolewm_assets.store.artefacts.root import enclosing_root
from genolewm_assets_tests.late import Late
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.lewm.dataset_world import publish_encoded, publish_package

torch_data = Late("torch.utils.data")


@pytest.fixture(scope="module")
def encoder(tiny_folder: Path):
    return encoders.CausalLMStateEncoder(tiny_folder)


@pytest.fixture(scope="module")
def cached(tmp_path_factory: pytest.TempPathFactory, encoder) -> Path:
    """Return a package with caches of the tiny encoder; not to be changed."""
    return publish_encoded(tmp_path_factory.mktemp("cached"), encoder)


def states(dataset) -> np.ndarray:
    return np.concatenate([batch.source_states for batch in dataset])


def visits(dataset, *origins: str) -> int:
    """Return how many windows an epoch visits, of some origins or of all."""
    return sum(one.slot == 0 and (not origins or one.origin in origins) for batch in dataset for one in batch.tuples)


def encoded(dataset) -> int:
    return sum(batch.counts.get("encoded_windows", 0) for batch in dataset)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["local", "global"])
def test_live_and_cached_states_of_the_same_windows_are_equal(tmp_path, cached, encoder, kind):
    options = {"kind": kind, "radius_tokens": 30, "windows_per_batch": 16, "seed": 2}
    wanted = lewm.GenoLeWMDataset(cached, **options)
    live = lewm.GenoLeWMDataset(publish_package(tmp_path, encode=None), encoder=encoder, **options)
    # On the CPU a window is encoded alone with one thread, so its states have the same bits wherever it is encoded.
    np.testing.assert_array_equal(states(live), states(wanted))
    assert encoded(live) == visits(wanted) > 50
    assert encoded(wanted) == 0


def test_only_the_windows_of_a_missing_cache_are_encoded(tmp_path, cached, encoder):
    folder = tmp_path / "root"
    shutil.copytree(enclosing_root(cached), folder, symlinks=True)
    package = folder / cached.relative_to(enclosing_root(cached))
    (missing,) = (ref for ref in open_package(package).info.caches if ref.source == "chr17")
    shutil.rmtree((folder / missing.path).resolve())
    (folder / missing.path).unlink()
    with pytest.raises(MissingResourceError, match=r"\(cache of chr17\): the cache that the package refers to is miss"):
        lewm.GenoLeWMDataset(package)
    assert "chr17" not in open_available(package).caches
    live, wanted = lewm.GenoLeWMDataset(package, encoder=encoder), lewm.GenoLeWMDataset(cached)
    np.testing.assert_array_equal(states(live), states(wanted))
    on_chr17 = visits(wanted, "reference")
    assert encoded(live) == on_chr17 > 0
    assert encoded(torch_data.DataLoader(live, num_workers=2)) == on_chr17


def test_an_encoder_of_complete_caches_encodes_nothing(cached, encoder):
    assert encoded(lewm.GenoLeWMDataset(cached, encoder=encoder)) == 0


@each_row(
    ("change", "message"),
    [
        ({"layer": 0}, r"made with another encoder: expected \{'layer': 2\}, got \{'layer': 0\}"),
        ({"dtype": "float16"}, r"expected \{'dtype': 'float32'\}, got \{'dtype': 'float16'\}"),
        ({"block_tokens": 32}, "blocks of another size: expected 64, got 32"),
    ],
)
def test_another_encoder_than_the_caches_is_refused(cached, tiny_folder, change, message):
    with pytest.raises(ConfigurationError, match=message):
        lewm.GenoLeWMDataset(cached, encoder=encoders.CausalLMStateEncoder(tiny_folder, **change))


def test_a_context_shorter_than_the_windows_is_refused_before_any_is_encoded(tmp_path, tiny_folder):
    short = Path(shutil.copytree(tiny_folder, tmp_path / "model"))
    config = json.loads((short / "config.json").read_text())
    (short / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 201}))
    package = publish_package(tmp_path, encode=None)
    with pytest.raises(ConfigurationError, match=r"the model's context: expected at most 1,194 bp, got 1,200"):
        lewm.GenoLeWMDataset(package, encoder=encoders.CausalLMStateEncoder(short))
    (short / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 202}))
    assert encoded(lewm.GenoLeWMDataset(package, encoder=encoders.CausalLMStateEncoder(short))) > 0


def test_another_encoder_than_a_missing_cache_is_refused(tmp_path, cached, tiny_folder, encoder):
    elsewhere = tmp_path / "package"
    shutil.copytree(cached, elsewhere)
    live = lewm.GenoLeWMDataset(elsewhere, encoder=encoder, allow_unaudited=True)
    np.testing.assert_array_equal(states(live), states(lewm.GenoLeWMDataset(cached)))
    other = encoders.CausalLMStateEncoder(tiny_folder, layer=1)
    with pytest.raises(ConfigurationError, match=r"the missing cache of \w+ was made with another encoder"):
        lewm.GenoLeWMDataset(elsewhere, encoder=other, allow_unaudited=True)


def test_half_precision_states_are_equal_too(tmp_path, tiny_folder):
    half = encoders.CausalLMStateEncoder(tiny_folder, dtype="float16")
    wanted = lewm.GenoLeWMDataset(publish_encoded(tmp_path / "cached", half))
    live = lewm.GenoLeWMDataset(publish_package(tmp_path / "bare", encode=None), encoder=half)
    np.testing.assert_array_equal(states(live), states(wanted))


def test_an_encoder_needs_states(cached, encoder):
    with pytest.raises(ConfigurationError, match="encoder: of no use with with_states=False"):
        lewm.GenoLeWMDataset(cached, encoder=encoder, with_states=False)


def test_without_an_encoder_a_window_in_no_cache_is_an_error(cached, encoder):
    package = open_tables(cached)
    assert encoded(lewm.GenoLeWMDataset(package, encoder=encoder)) == visits(lewm.GenoLeWMDataset(cached))
    with pytest.raises(ConfigurationError, match=r"without its state caches\..*give an encoder \(encoder=\)"):
        lewm.GenoLeWMDataset(package)
    partial = open_available(cached)
    partial = type(partial)(partial.directory, partial.info, {"chr17": partial.caches["chr17"]})
    with pytest.raises(CorruptResourceError, match="in no cache of the package"):
        list(lewm.GenoLeWMDataset(partial))
