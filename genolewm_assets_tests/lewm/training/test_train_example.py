from __future__ import annotations

import importlib.util
from itertools import pairwise
from types import ModuleType

import pytest

from genolewm_assets import encoders
from genolewm_assets_tests.places import REPOSITORY
from genolewm_assets_tests.worlds.lewm.dataset_world import N_BLOCKS, publish_package

EXAMPLE = REPOSITORY / "docs" / "train_example.py"


def load_example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("train_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_loss_of_a_linear_predictor_falls(tmp_path):
    model = tmp_path / "tiny-llama"
    encoders.write_tiny_llama(model)
    encoder = encoders.CausalLMStateEncoder(model)
    package = publish_package(tmp_path, encode=lambda windows: encoder.encode_windows(windows, n_blocks=N_BLOCKS))
    losses = load_example().train(package, model, epochs=4, windows_per_batch=4)
    assert all(after < before for before, after in pairwise(losses))
    assert losses[-1] < 0.97
