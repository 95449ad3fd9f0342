"""Checks of states: bfloat16 against float32, null edits, rows of the windows; planted faults are found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from genolewm_assets import encoders
from genolewm_assets.encoders import EncoderIdentity
from genolewm_assets.encoders.identity import Compute, StateDtype
from genolewm_assets.encoders.precision_check import PRECISION_SUFFICIENT
from genolewm_assets.encoders.state_checks import NULL_EDIT_BOUND, STATE_CHECKS, check_states, null_edit_ratio
from genolewm_assets.errors import ReferenceMismatchError
from genolewm_assets.genome import RelEdit
from genolewm_assets_tests.encoders.conftest import random_snvs, random_windows
from genolewm_assets_tests.worlds.lewm.cache_world import listed_windows

WINDOWS = [*random_windows(5, 1_536), *random_windows(2, 900)]
N_BLOCKS = 4


def checked(low: Any, sequences: Sequence[str] = WINDOWS) -> Any:
    states = low.encode_windows(sequences, n_blocks=N_BLOCKS)
    windows = listed_windows(sequences)
    return check_states(lambda rows: states[list(rows)], len(sequences), low, windows, n_blocks=N_BLOCKS)


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


def test_float32_loads_no_second_model(encoder: encoders.CausalLMStateEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
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
    results = check_states(lambda rows: np.zeros((0, 1, 64)), 0, Rounding(encoder), listed_windows([]), n_blocks=1)
    assert results[-1].figures == {"compared": 0, "not_compared": "the window table has no row"}


def test_a_missing_row_fails_every_check(encoder: encoders.CausalLMStateEncoder) -> None:
    states, windows = encoder.encode_windows(WINDOWS[:6], n_blocks=N_BLOCKS), listed_windows(WINDOWS)
    missing = check_states(lambda rows: states[list(rows)], 6, Rounding(encoder), windows, n_blocks=N_BLOCKS)
    assert [check.name for check in missing] == [*STATE_CHECKS, PRECISION_SUFFICIENT]
    assert not any(check.passed for check in missing)


#: Targets are computed from the first token that changes, in sums of another order than those of whole windows.
_ROUNDING = 1e-4


class CountingEncoder:
    """One number per block, the mean of its letters, plus what a test adds to the states of targets."""

    def __init__(self, artefact: Sequence[float] = (0.0,), sensitivity: float = 1.0) -> None:
        self.artefact, self.sensitivity = artefact, sensitivity

    @property
    def identity(self) -> EncoderIdentity:
        return EncoderIdentity("fake", None, "", "", 0, 4, StateDtype.FLOAT32, 1)

    @property
    def hidden_size(self) -> int:
        return 1

    def encode_windows(self, sequences: Sequence[str], *, n_blocks: int | None = None) -> NDArray[Any]:
        values = np.array([[ord(base) for base in sequence] for sequence in sequences], dtype=np.float32)
        return np.asarray(self.sensitivity * values.reshape(len(sequences), -1, 24, 1).mean(axis=2))

    def encode_edited(self, sequences: Sequence[str], *, n_blocks: int | None = None) -> NDArray[Any]:
        return np.asarray(self.encode_windows(sequences) + np.resize(self.artefact, (len(sequences), 1, 1)))


def test_the_ratio_is_the_largest_artefact_over_the_typical_effect() -> None:
    windows = ["A" * 240] * 3
    snvs = [RelEdit(100, "A", "C"), RelEdit(100, "A", "G"), RelEdit(100, "A", "T")]
    # A SNV moves one of the five blocks of 24 bases round it by (C 2, G 6, T 19) / 24; the artefact moves each by 0.01.
    ratio = null_edit_ratio(CountingEncoder(artefact=[0.01]), windows, snvs, radius_tokens=8)
    assert ratio == pytest.approx(0.01 / (6 / 24 / 5 + 0.01), rel=1e-3)
    one_of_three = CountingEncoder(artefact=[0.0, 0.0, 0.02, 0.0, 0.0, 0.0])
    assert null_edit_ratio(one_of_three, windows, snvs, radius_tokens=8) == pytest.approx(0.02 / (6 / 24 / 5), rel=1e-3)
    assert null_edit_ratio(CountingEncoder(), windows, snvs) == 0.0


def test_effects_that_are_nothing_do_not_pass() -> None:
    windows = random_windows(2, 240)
    assert null_edit_ratio(CountingEncoder(sensitivity=0.0), windows, random_snvs(windows)) == float("inf")


def test_a_cache_of_other_windows_is_found(encoder: encoders.CausalLMStateEncoder) -> None:
    windows = random_windows(4, 1_536)
    snvs = random_snvs(windows)
    cached = encoder.encode_windows(windows)
    assert null_edit_ratio(encoder, windows, snvs, cached=cached) < _ROUNDING
    assert null_edit_ratio(encoder, windows, snvs, cached=cached[::-1]) > NULL_EDIT_BOUND


@pytest.mark.parametrize("dtype", list(StateDtype))
@pytest.mark.parametrize("side", [pytest.param("both", marks=pytest.mark.slow), "right"])
def test_the_tiny_encoder_stays_under_the_bound(dtype: str, side: Any, tiny_folder: Path) -> None:
    windows = random_windows(6)
    encoder = encoders.CausalLMStateEncoder(tiny_folder, dtype=dtype)
    assert null_edit_ratio(encoder, windows, random_snvs(windows), side=side) < NULL_EDIT_BOUND


def test_an_edit_of_another_window_is_refused() -> None:
    with pytest.raises(ReferenceMismatchError):
        null_edit_ratio(CountingEncoder(), ["A" * 96], [RelEdit(70, "C", "G")])


def test_a_cache_without_rows_compared_nothing_and_says_so() -> None:
    results = check_states(lambda _: np.zeros((0, 1, 1)), 0, CountingEncoder(), listed_windows([]), n_blocks=1)
    assert tuple(result.name for result in results) == STATE_CHECKS
    assert all(result.passed for result in results)
    for result in results[1:]:
        assert (result.figures["compared"], result.figures["not_compared"]) == (0, "the window table has no row")
