"""Caches of states: filled, resumed, and checked against the encoder; each planted fault fails its own check."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from genolewm_assets import encoders
from genolewm_assets.encoders import state_cache, state_checks
from genolewm_assets.encoders.identity import StateEncoder
from genolewm_assets.encoders.state_cache import BATCH_ROWS, STATES, state_config, write_states
from genolewm_assets.encoders.state_checks import STATE_CHECKS, check_states
from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.states import WindowSource
from genolewm_assets.store import ArrayStoreReader
from genolewm_assets.store.arrays import ArrayStoreWriter
from genolewm_assets.store.artefacts import BuildReport
from genolewm_assets_tests.encoders.conftest import random_windows
from genolewm_assets_tests.faults.killing import start
from genolewm_assets_tests.worlds.lewm.cache_world import listed_windows

SIZE_BP = 1_536
N_BLOCKS = 4


def write(folder: Path, encoder: StateEncoder, sequences: list[str], **options: Any) -> BuildReport:
    config = state_config(encoder.identity, windows_sha256="0" * 64, window_bp=SIZE_BP)
    windows, sources = listed_windows(sequences), {"windows/index[chr17]": "1" * 64}
    return write_states(folder, config, encoder, windows, window_bp=SIZE_BP, sources=sources, **options)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def fill(folder: Path, encoder: StateEncoder, sequences: list[str]) -> ArrayStoreReader:
    report = write(folder, encoder, sequences)
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


def test_rows_of_other_windows_are_not_continued(encoder: encoders.CausalLMStateEncoder, tmp_path: Path) -> None:
    sequences = random_windows(150, 192)
    with pytest.raises(StoppedError):
        write(tmp_path / "stopped", StopsAfter(encoder, 1), sequences)
    others = listed_windows(sequences, "chr17")
    (batch,) = others.read()
    keys = ["chr17:0", "chr18:1", *batch["key"].to_pylist()[2:]]
    renamed = pa.RecordBatch.from_pydict({"key": keys, "sequence": batch["sequence"]})
    config = state_config(encoder.identity, windows_sha256="0" * 64, window_bp=SIZE_BP)
    stranger = WindowSource(others.lengths, lambda: iter([renamed]), others.take)
    with pytest.raises(CorruptResourceError, match="of other windows: expected 'chr18:1', got 'chr17:1'"):
        write_states(tmp_path / "stopped", config, encoder, stranger, window_bp=SIZE_BP, sources={})


class Recorded:
    """An encoder whose states are known, for a forked child, which may not use torch."""

    def __init__(self, encoder: encoders.CausalLMStateEncoder, sequences: Sequence[str]) -> None:
        self.identity = encoder.identity
        self._states = dict(zip(sequences, encoder.encode_windows(sequences, n_blocks=N_BLOCKS), strict=True))

    def encode_windows(self, sequences: Sequence[str], *, n_blocks: int | None = None) -> NDArray[np.float32]:
        return np.stack([self._states[each] for each in sequences])

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} is used although the child was to be killed before")


class KilledAt:
    """Progress that kills its process when so many windows are written."""

    def __init__(self, done: int) -> None:
        self._done = done

    def advance(self, done: int, total: int, unit: str) -> None:
        if done >= self._done:
            os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_build_goes_on_after_its_last_commit(
    encoder: encoders.CausalLMStateEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sequences = random_windows(150, 192)
    recorded = Recorded(encoder, sequences)
    monkeypatch.setattr(state_cache, "ENCODED_AT_ONCE", 50)
    child = start(lambda: write(tmp_path / "killed", recorded, sequences, progress=KilledAt(100)))
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    report = write(tmp_path / "killed", encoder, sequences)
    assert report.run["windows_encoded"] == len(sequences) - BATCH_ROWS
    assert write(tmp_path / "straight", encoder, sequences).run["windows_encoded"] == len(sequences)
    assert contents(tmp_path / "killed") == contents(tmp_path / "straight")


@pytest.mark.parametrize("at_once", [1, 7, 200])
def test_bytes_do_not_depend_on_batches(
    at_once: int,
    tiny_folder: Path,
    encoder: encoders.CausalLMStateEncoder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sequences = [*random_windows(70, 192), *random_windows(30, 768)]
    fill(tmp_path / "straight", encoder, sequences)
    monkeypatch.setattr(state_cache, "ENCODED_AT_ONCE", at_once)
    fill(tmp_path / "other", encoders.CausalLMStateEncoder(tiny_folder, batch_windows=at_once), sequences)
    assert contents(tmp_path / "other") == contents(tmp_path / "straight")


class SlowFirst:
    """An encoder whose first call ends after its second, and which counts the calls that no row was written of."""

    def __init__(self, encoder: encoders.CausalLMStateEncoder) -> None:
        self._encoder, self.identity, self.calls = encoder, encoder.identity, 0
        self._second = threading.Event()

    def encode_windows(self, sequences: Sequence[str], *, n_blocks: int | None = None) -> NDArray[np.float32]:
        self.calls += 1
        if len(sequences[0]) == 768:
            assert self._second.wait(60)
        self._second.set()
        return self._encoder.encode_windows(sequences, n_blocks=n_blocks)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)


def test_rows_keep_their_order_while_calls_overlap(encoder: encoders.CausalLMStateEncoder, tmp_path: Path) -> None:
    sequences = [*random_windows(64, 768), *random_windows(64, 192)]
    fill(tmp_path / "overlapping", SlowFirst(encoder), sequences)
    fill(tmp_path / "straight", encoder, sequences)
    assert contents(tmp_path / "overlapping") == contents(tmp_path / "straight")


def test_an_error_of_the_disk_stops_the_encoder(
    encoder: encoders.CausalLMStateEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ArrayStoreWriter, "write_batch", refuse)
    counting = SlowFirst(encoder)
    with pytest.raises(OSError, match="No space left"):
        write(tmp_path / "full", counting, random_windows(64 * 20, 192))
    # As many as wait to be written, and no more.
    assert counting.calls <= 5
    assert not any(thread.name.startswith("read-ahead") for thread in threading.enumerate())


Fault = Callable[[NDArray[np.float32]], None]


def poison(states: NDArray[np.float32]) -> None:
    states[1, 0, 0] = np.nan


def swell(states: NDArray[np.float32]) -> None:
    states[2, 1] *= 1e4


def swap(states: NDArray[np.float32]) -> None:
    states[[0, 3]] = states[[3, 0]]


@pytest.mark.parametrize(
    ("fault", "check"),
    [(poison, "states_finite"), (swell, "norms_plausible"), (swap, "states_reproducible"), (swap, "null_edit_bounded")],
)
def test_a_planted_fault_is_found(fault: Fault, check: str, encoder: encoders.CausalLMStateEncoder) -> None:
    sequences = random_windows(4, SIZE_BP)
    states = encoder.encode_windows(sequences, n_blocks=N_BLOCKS)
    fault(states)
    results = check_states(lambda rows: states[list(rows)], 4, encoder, listed_windows(sequences), n_blocks=N_BLOCKS)
    assert check in {result.name for result in results if not result.passed}


@pytest.mark.parametrize("n_windows", [1, 4, 7])
@pytest.mark.parametrize("swept", [3, 256])
def test_norms_are_those_that_numpy_finds(
    n_windows: int, swept: int, encoder: encoders.CausalLMStateEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_checks, "_SWEPT_ROWS", swept)
    sizes = [SIZE_BP - 384 * (row % 3) for row in range(n_windows)]
    sequences = [random_windows(1, size, seed=row)[0] for row, size in enumerate(sizes)]
    states = encoder.encode_windows(sequences, n_blocks=N_BLOCKS)
    states[-1, 1] *= 1e4
    real = np.arange(N_BLOCKS) < np.array(sizes)[:, None] // 384
    norms = np.linalg.norm(states.astype(np.float64), axis=2)[real]
    found = check_states(lambda rows: states[list(rows)], n_windows, encoder, listed_windows(sequences), n_blocks=4)
    (plausible,) = [check for check in found if check.name == "norms_plausible"]
    wanted = {"norm_min": norms.min(), "norm_median": np.median(norms), "norm_max": norms.max()}
    assert {name: plausible.figures[name] for name in wanted} == wanted
    assert not plausible.passed
    assert [(row["row"], row["block"]) for row in plausible.rows] == [(n_windows - 1, 1)]
