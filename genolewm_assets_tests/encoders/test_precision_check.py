"""The check of bfloat16 against float32: real rounding passes, planted rounding does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from genolewm_assets import encoders
from genolewm_assets.encoders import precision_check
from genolewm_assets.encoders.identity import Compute
from genolewm_assets.encoders.precision_check import PRECISION_SUFFICIENT, check_precision, choose_rows
from genolewm_assets.encoders.state_checks import STATE_CHECKS, check_states
from genolewm_assets_tests.encoders.conftest import random_windows

WINDOWS = [*random_windows(5, 1_536), *random_windows(2, 900)]
N_BLOCKS = 4


def checked(low: Any, sequences: Sequence[str] = WINDOWS) -> Any:
    states = low.encode_windows(sequences, n_blocks=N_BLOCKS)
    return check_states(lambda rows: states[list(rows)], len(sequences), low, sequences, n_blocks=N_BLOCKS)


@pytest.mark.parametrize("folder", ["tiny_folder", "hybrid_folder"])
def test_rounding_to_bfloat16_is_measured_and_small(folder: str, request: pytest.FixtureRequest) -> None:
    low = encoders.CausalLMStateEncoder(request.getfixturevalue(folder), compute="bfloat16", dtype="float16")
    (*others, precise) = checked(low)
    assert [check.name for check in others] == list(STATE_CHECKS)
    assert all(check.passed for check in others), others
    assert (precise.name, precise.passed, precise.figures["compared"]) == (PRECISION_SUFFICIENT, True, 7)
    assert 0.999 < precise.figures["cosine_min"] <= precise.figures["cosine_median"] <= 1.0
    assert 1e-4 < precise.figures["relative_error_median"] <= precise.figures["relative_error_max"] < 0.02
    assert 1e-3 < precise.figures["rounding_share"] < 0.15


def test_a_cache_in_float32_loads_no_second_model(
    encoder: encoders.CausalLMStateEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoders.CausalLMStateEncoder, "in_float32", None)
    assert [check.name for check in checked(encoder)] == list(STATE_CHECKS)


def test_the_same_encoder_in_float32(tiny_folder: Path) -> None:
    low = encoders.CausalLMStateEncoder(tiny_folder, layer=1, compute="bfloat16", dtype="float16")
    exact = low.in_float32()
    assert exact.identity == encoders.read_identity(tiny_folder, layer=1)
    assert low.identity == replace(exact.identity, compute=Compute.BFLOAT16, dtype=low.identity.dtype)


class Rounding:
    """An encoder that says that it computes in bfloat16, and adds what a test plants."""

    def __init__(self, encoder: Any, *, noise: float = 0.0, shift: float = 0.0) -> None:
        self._encoder, self._noise, self._shift = encoder, noise, shift
        self.identity = replace(encoder.identity, compute=Compute.BFLOAT16)

    def encode_windows(self, sequences: Sequence[str], *, n_blocks: int | None = None) -> NDArray[np.float32]:
        states = self._encoder.encode_windows(sequences, n_blocks=n_blocks)
        # Noise that depends on the window alone, as rounding does.
        noise = [np.random.default_rng(list(sequence.encode())).normal(size=states.shape[-1]) for sequence in sequences]
        added: NDArray[np.float32] = (states + self._noise * np.array(noise)[:, None] + self._shift).astype(np.float32)
        return added

    encode_edited = encode_windows

    def in_float32(self) -> Any:
        return self._encoder


def test_what_source_and_target_share_is_no_rounding_of_a_difference(encoder: encoders.CausalLMStateEncoder) -> None:
    precise = checked(Rounding(encoder, shift=0.003))[-1]
    assert precise.passed
    assert precise.figures["rounding_share"] < 1e-3
    assert precise.figures["relative_error_median"] > 0.01


def test_noise_that_drowns_an_snv_is_found(encoder: encoders.CausalLMStateEncoder) -> None:
    precise = checked(Rounding(encoder, noise=0.005))[-1]
    assert not precise.passed
    assert precise.figures["cosine_min"] > 0.999
    assert precise.figures["rounding_share"] > 0.25
    assert precise.rows[0]["what"] == "rounding / median shift by an SNV"


def test_states_of_another_direction_are_found(encoder: encoders.CausalLMStateEncoder) -> None:
    precise = checked(Rounding(encoder, shift=0.2))[-1]
    assert not precise.passed
    assert precise.figures["cosine_min"] < 0.999


def test_a_cache_without_rows_compared_nothing(encoder: encoders.CausalLMStateEncoder) -> None:
    results = check_states(lambda rows: np.zeros((0, 1, 64)), 0, Rounding(encoder), [], n_blocks=1)
    assert results[-1].figures == {"compared": 0, "not_compared": "the window table has no row"}
    missing = check_states(lambda rows: np.zeros((0, 1, 64)), 0, Rounding(encoder), WINDOWS, n_blocks=1)
    assert [check.name for check in missing] == [*STATE_CHECKS, PRECISION_SUFFICIENT]
    assert not any(check.passed for check in missing)


def test_many_rows_are_sampled_at_random_and_again_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = choose_rows(10_000)
    assert (len(set(rows)), rows) == (256, sorted(rows))
    assert rows == choose_rows(10_000)
    assert len(set(np.diff(rows))) > 10
    assert choose_rows(3) == [0, 1, 2]


def test_batches_of_rows_give_the_figures_of_all(
    tiny_folder: Path, encoder: encoders.CausalLMStateEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    low = encoders.CausalLMStateEncoder(tiny_folder, compute="bfloat16")
    states = low.encode_windows(WINDOWS, n_blocks=N_BLOCKS)
    results = []
    for at_once in (64, 3):
        monkeypatch.setattr(precision_check, "_AT_ONCE", at_once)
        results.append(check_precision(lambda rows: states[list(rows)], low, encoder, WINDOWS, n_blocks=N_BLOCKS))
    assert results[0] == results[1]
