"""Tiny encoders on disk, loaded once, and windows to hand them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from genolewm_assets import encoders
from genolewm_assets.genome import RelEdit
from genolewm_assets_tests.encoders.hybrid_model import write_hybrid_fixture
from genolewm_assets_tests.worlds.once import built_once

WINDOW_BP = 12_288


@pytest.fixture(scope="session")
def hybrid_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an encoder with Carbon's shape of vocabulary."""
    return built_once(tmp_path_factory, "hybrid", write_hybrid_fixture)


@pytest.fixture
def model_copy(tiny_folder: Path, tmp_path: Path) -> Path:
    """Return a copy of the sample encoder that a test may damage."""
    return Path(shutil.copytree(tiny_folder, tmp_path / encoders.TINY_LLAMA))


@pytest.fixture(scope="session")
def encoder(tiny_folder: Path) -> encoders.CausalLMStateEncoder:
    """Return the sample encoder, float32 on the CPU."""
    return encoders.CausalLMStateEncoder(tiny_folder)


def change_config(folder: Path, **entries: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))


def random_windows(n: int, size_bp: int = WINDOW_BP, seed: int = 0) -> list[str]:
    """Return windows of independent bases."""
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(list("ACGT"), size_bp)) for _ in range(n)]


def random_snvs(windows: list[str], seed: int = 1) -> list[RelEdit]:
    """Return one SNV inside the inset of each window."""
    rng = np.random.default_rng(seed)
    places = [int(rng.integers(64, len(window) - 64)) for window in windows]
    return [
        RelEdit(at, window[at], str(rng.choice([base for base in "ACGT" if base != window[at]])))
        for at, window in zip(places, windows, strict=True)
    ]
