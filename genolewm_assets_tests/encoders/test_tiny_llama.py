from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors import safe_open

from genolewm_assets.encoders import write_tiny_llama
from genolewm_assets_tests.encoders.hybrid_model import write_hybrid_fixture

#: A change here is another encoder: every cache of the sample gets another key.
GOLDEN = {
    "config.json": "f219c467560231b0",
    "model.safetensors": "7d3ba7bc5fcd6725",
    "tokenizer.json": "bab461be79d2712e",
}


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.mark.parametrize("writer", [write_tiny_llama, write_hybrid_fixture])
def test_every_run_writes_the_same_bytes(writer: Callable[[Path], None], tmp_path: Path) -> None:
    writer(tmp_path / "a")
    writer(tmp_path / "deeper" / "b")
    assert digests(tmp_path / "a") == digests(tmp_path / "deeper" / "b")


def test_the_bytes_are_the_agreed_ones(tiny_folder: Path) -> None:
    found = digests(tiny_folder)
    assert {name: found[name][:16] for name in GOLDEN} == GOLDEN


def test_what_is_there_stays_and_what_is_damaged_is_mended(tmp_path: Path) -> None:
    write_tiny_llama(tmp_path)
    before = digests(tmp_path)
    for path in tmp_path.iterdir():
        os.utime(path, ns=(1, 1))
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    write_tiny_llama(tmp_path)
    assert digests(tmp_path) == before
    assert {path.name for path in tmp_path.iterdir() if path.stat().st_mtime_ns != 1} == {"model.safetensors"}


def test_the_weights_are_a_hugging_face_checkpoint(tiny_folder: Path) -> None:
    with safe_open(tiny_folder / "model.safetensors", "np") as file:
        assert file.metadata() == {"format": "pt"}
        assert file.get_slice("model.embed_tokens.weight").get_shape() == [4_100, 64]
        assert len(file.keys()) == 1 + 2 * 9 + 1


@pytest.mark.parametrize("folder", ["tiny_folder", "hybrid_folder"])
def test_the_card_says_that_the_weights_are_random(folder: str, request: pytest.FixtureRequest) -> None:
    card = (request.getfixturevalue(folder) / "README.md").read_text()
    assert "**The weights of this model are random.**" in card
