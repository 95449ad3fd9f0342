"""Caches of states: filled, resumed, and checked against the encoder; each planted fault fails its own check."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from genolewm_assets import encoders
from genolewm_assets.encoders.state_cache import STATES, state_config, write_states
from genolewm_assets.encoders.state_checks import STATE_CHECKS, check_states, spread
from genolewm_assets.store import ArrayStoreReader
from genolewm_assets_tests.encoders.conftest import random_windows

SIZE_BP = 1_536
N_BLOCKS = 4


def fill(folder: Path, encoder: encoders.CausalLMStateEncoder, sequences: list[str]) -> ArrayStoreReader:
    config = state_config(encoder.identity, windows_sha256="0" * 64, window_bp=SIZE_BP)
    keys = [f"chr17:{row}" for row in range(len(sequences))]
    sources = {"windows/index[chr17]": "1" * 64}
    report = write_states(folder, config, encoder, keys=keys, sequences=sequences, window_bp=SIZE_BP, sources=sources)
    assert [check.name for check in report.checks] == list(STATE_CHECKS)
    assert all(check.passed for check in report.checks), report.checks
    return ArrayStoreReader(folder)


def test_rows_are_the_encoder_s_states_in_order(encoder: encoders.CausalLMStateEncoder, tmp_path: Path) -> None:
    sequences = [*random_windows(5, SIZE_BP), *random_windows(2, 900)]
    reader = fill(tmp_path / "cache", encoder, sequences)
    assert reader.keys() == [f"chr17:{row}" for row in range(7)]
    expected = encoder.encode_windows(sequences, n_blocks=N_BLOCKS)
    np.testing.assert_array_equal(reader.get_rows(list(range(7)), array=STATES), expected)


class StoppedError(Exception):
    """What interrupts an encoder in a test."""


class StopsAfter:
    """An encoder that is interrupted after some calls."""

    def __init__(self, encoder: encoders.CausalLMStateEncoder, calls: int) -> None:
        self._encoder, self._left = encoder, calls
        self.identity, self.hidden_size = encoder.identity, encoder.hidden_size

    def encode_windows(self, sequences: Sequence[str], *, n_blocks: int | None = None) -> NDArray[np.float32]:
        if not self._left:
            raise StoppedError
        self._left -= 1
        return self._encoder.encode_windows(sequences, n_blocks=n_blocks)

    encode_edited = encode_windows


def test_an_interrupted_cache_goes_on_and_ends_the_same(encoder: encoders.CausalLMStateEncoder, tmp_path: Path) -> None:
    sequences = random_windows(150, 768)
    config = state_config(encoder.identity, windows_sha256="0" * 64, window_bp=SIZE_BP)
    keys, sources = [f"chr17:{row}" for row in range(150)], {"windows/index[chr17]": "1" * 64}
    with pytest.raises(StoppedError):
        write_states(
            tmp_path / "stopped",
            config,
            StopsAfter(encoder, 1),
            keys=keys,
            sequences=sequences,
            window_bp=SIZE_BP,
            sources=sources,
        )
    fill(tmp_path / "stopped", encoder, sequences)
    fill(tmp_path / "straight", encoder, sequences)
    names = sorted(path.name for path in (tmp_path / "straight").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "stopped").iterdir())
    for name in names:
        assert (tmp_path / "stopped" / name).read_bytes() == (tmp_path / "straight" / name).read_bytes(), name


Fault = Callable[[NDArray[np.float32]], None]


def poison(states: NDArray[np.float32]) -> None:
    states[1, 0, 0] = np.nan


def inflate(states: NDArray[np.float32]) -> None:
    states[2, 1] *= 1e4


def swap(states: NDArray[np.float32]) -> None:
    states[[0, 3]] = states[[3, 0]]


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        (poison, "states_finite"),
        (inflate, "norms_plausible"),
        (swap, "states_reproducible"),
        (swap, "null_edit_bounded"),
    ],
)
def test_a_planted_fault_is_found(fault: Fault, check: str, encoder: encoders.CausalLMStateEncoder) -> None:
    sequences = random_windows(4, SIZE_BP)
    states = encoder.encode_windows(sequences, n_blocks=N_BLOCKS)
    fault(states)
    results = check_states(lambda rows: states[list(rows)], 4, encoder, sequences, n_blocks=N_BLOCKS)
    assert check in {result.name for result in results if not result.passed}


def test_a_missing_row_fails_every_check(encoder: encoders.CausalLMStateEncoder) -> None:
    sequences = random_windows(3, SIZE_BP)
    states = encoder.encode_windows(sequences[:2], n_blocks=N_BLOCKS)
    results = check_states(lambda rows: states[list(rows)], 2, encoder, sequences, n_blocks=N_BLOCKS)
    assert not any(result.passed for result in results)


@pytest.mark.parametrize(
    ("rows", "wanted", "expected"), [(0, 5, []), (1, 5, [0]), (3, 5, [0, 1, 2]), (9, 3, [0, 4, 8])]
)
def test_spread(rows: int, wanted: int, expected: list[int]) -> None:
    assert spread(rows, wanted) == expected
