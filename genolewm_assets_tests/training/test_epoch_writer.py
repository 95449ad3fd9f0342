"""Frozen epochs are written, go on after a kill to equal bytes, and each planted fault fails its own check."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from genolewm_assets import encoders, lewm
from genolewm_assets.errors import ConfigurationError
from genolewm_assets.store.arrays import ArrayStoreReader, ArrayStoreWriter, compute_fingerprint
from genolewm_assets.training import epoch_checks as checks_module
from genolewm_assets.training import epoch_writer as writer_module
from genolewm_assets.training.epoch_checks import FROZEN_CHECKS, check_frozen
from genolewm_assets.training.epoch_writer import BATCH_ROWS
from genolewm_assets.training.precomputed_epochs.reader import FrozenEpochs
from genolewm_assets.training.precomputed_epochs.rows import FROZEN_ROWS
from genolewm_assets_tests.worlds.lewm.frozen_world import EPOCHS, OPTIONS, FrozenWorld, frozen_world

N_VISITS = OPTIONS["windows_per_epoch"]
N_ROWS = EPOCHS * N_VISITS


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> FrozenWorld:
    return frozen_world(tmp_path_factory)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_store_has_the_declared_columns_and_says_what_it_is(world: FrozenWorld) -> None:
    reader = ArrayStoreReader(world.store)
    assert {"row", "key", *reader.arrays} == set(FROZEN_ROWS.columns)
    assert reader.keys() == [f"{epoch}:{visit}" for epoch in range(EPOCHS) for visit in range(N_VISITS)]
    for name, spec in reader.arrays.items():
        kind, depth = FROZEN_ROWS.arrow.field(name).type, 0
        while hasattr(kind, "value_type"):
            kind, depth = kind.value_type, depth + 1
        assert (str(kind).replace("float", "float32"), depth) == (spec.dtype, len(spec.shape)), name
    config: Any = reader.fingerprint["config"]
    assert config["encoder"] == world.encoder.identity.as_recipe()
    assert config["options"] == world.live().options
    assert (config["epochs"], config["release"]) == (EPOCHS, "2025-01-05")


def test_a_second_call_encodes_nothing(world: FrozenWorld, tmp_path: Path) -> None:
    first = world.freeze(tmp_path / "store", sources={"packages/split[2025-01-05]": "1" * 64})
    assert first.run["tuples_encoded"] == first.counts["tuples"] == N_ROWS * OPTIONS["n_edits"]
    before = contents(tmp_path / "store")
    again = world.freeze(tmp_path / "store", sources={"packages/split[2025-01-05]": "1" * 64})
    assert (again.run["tuples_encoded"], again.counts) == (0, first.counts)
    assert contents(tmp_path / "store") == before
    # Sources are named in the fingerprint alone.
    plain = contents(world.store)
    assert {name for name in before if before[name] != plain[name]} == {"fingerprint.json", "crc.json", "_COMPLETE"}


class StoppedError(Exception):
    """What interrupts an encoder in a test."""


class StopsAfter:
    """An encoder that is interrupted after some calls for edited windows."""

    def __init__(self, encoder: encoders.CausalLMStateEncoder, calls: int) -> None:
        self._encoder, self._left, self.identity = encoder, calls, encoder.identity

    def encode_windows(self, sequences: Sequence[str]) -> NDArray[Any]:
        return self._encoder.encode_windows(sequences)

    def encode_edits(self, *args: Any) -> NDArray[Any]:
        if not self._left:
            raise StoppedError
        self._left -= 1
        return self._encoder.encode_edits(*args)


@pytest.mark.parametrize("calls", [1, 3])
def test_an_interrupted_store_goes_on_and_ends_the_same(world: FrozenWorld, tmp_path: Path, calls: int) -> None:
    store = tmp_path / "store"
    with pytest.raises(StoppedError):
        lewm.write_frozen(store, world.package, StopsAfter(world.encoder, calls), epochs=EPOCHS, **OPTIONS)
    report = world.freeze(store)
    # 41 visits an epoch: a commit of 32 rows, and one at the end of the epoch's last batch or later.
    assert report.run["tuples_encoded"] <= (N_ROWS - BATCH_ROWS * (calls > 1)) * OPTIONS["n_edits"]
    assert contents(store) == contents(world.store)


@pytest.mark.parametrize("rows", [1, 41, 50])
def test_rows_of_a_batch_that_are_there_in_part_are_kept(world: FrozenWorld, tmp_path: Path, rows: int) -> None:
    source, store = ArrayStoreReader(world.store), tmp_path / "store"
    specs, config = list(source.arrays.values()), source.fingerprint["config"]
    assert isinstance(config, dict)
    with ArrayStoreWriter(store, specs, key_config=config, batch_rows=BATCH_ROWS) as writer:
        taken = {name: source.get_slice(0, rows, name) for name in source.arrays}
        writer.write_batch(taken, keys=source.keys()[:rows])
    assert world.freeze(store).run["tuples_encoded"] == (N_ROWS - rows) * OPTIONS["n_edits"]
    assert contents(store) == contents(world.store)


#: Freezes epochs and is killed when 41 visits are encoded.
KILLED = """
import os, signal, sys
from pathlib import Path
from genolewm_assets_tests.worlds.lewm.frozen_world import FrozenWorld

class Killer:
    def advance(self, done, total, unit):
        if unit == "visits encoded" and done >= 41:
            os.kill(os.getpid(), signal.SIGKILL)

FrozenWorld(Path(sys.argv[1])).freeze(Path(sys.argv[2]), progress=Killer())
"""


@pytest.mark.nightly
def test_a_killed_build_goes_on_after_its_last_commit(world: FrozenWorld, tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(world.folder), str(tmp_path / "killed")]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert not (tmp_path / "killed/_COMPLETE").exists()
    report = world.freeze(tmp_path / "killed")
    assert report.run["tuples_encoded"] == (N_ROWS - BATCH_ROWS) * OPTIONS["n_edits"]
    assert contents(tmp_path / "killed") == contents(world.store)


def test_a_package_without_caches_is_frozen_with_its_encoder(world: FrozenWorld, tmp_path: Path) -> None:
    from genolewm_assets_tests.worlds.lewm.dataset_world import publish_package

    package = publish_package(tmp_path, encode=None)
    report = lewm.write_frozen(tmp_path / "store", package, world.encoder, epochs=1, **OPTIONS)
    assert all(check.passed for check in report.checks)
    live = lewm.GenoLeWMDataset(package, encoder=world.encoder, **OPTIONS)
    frozen = lewm.GenoLeWMDataset(package, frozen=tmp_path / "store", **OPTIONS)
    for mine, theirs in zip(live, frozen, strict=True):
        np.testing.assert_array_equal(mine.source_states, theirs.source_states)


def test_options_of_reading_and_no_epoch_are_refused(world: FrozenWorld, tmp_path: Path) -> None:
    for option in ({"windows_per_batch": 8}, {"rank": 1}, {"position": 2}, {"frozen": world.store}):
        with pytest.raises(ConfigurationError, match=f"{next(iter(option))}: says how batches are read"):
            world.freeze(tmp_path / "store", **option)
    with pytest.raises(ConfigurationError, match="epochs: out of range: expected at least 1, got 0"):
        lewm.write_frozen(tmp_path / "store", world.package, world.encoder, epochs=0)
    assert not (tmp_path / "store").exists()


def test_another_encoder_than_that_of_the_caches_is_refused(world: FrozenWorld, tmp_path: Path) -> None:
    other = encoders.CausalLMStateEncoder(world.model, layer=0)
    with pytest.raises(ConfigurationError, match="was made with another encoder"):
        lewm.write_frozen(tmp_path / "store", world.package, other, epochs=1)


def checked(world: FrozenWorld, store: Path) -> dict[str, Any]:
    dataset = world.live(windows_per_batch=BATCH_ROWS, encoder=world.encoder)
    found = check_frozen(FrozenEpochs(store), dataset, world.encoder, n_rows=N_ROWS, batch_rows=BATCH_ROWS)
    assert tuple(check.name for check in found) == FROZEN_CHECKS
    return {check.name: check for check in found}


def rewritten(world: FrozenWorld, store: Path, name: str | None, index: tuple[int, ...] = (), value: float = 0) -> Path:
    """Write the store again with another value, or without its last row."""
    source = ArrayStoreReader(world.store)
    config = source.fingerprint["config"]
    assert isinstance(config, dict)
    n_rows = N_ROWS if name else N_ROWS - EPOCHS
    rows = {each: np.array(source.get_slice(0, n_rows, each)) for each in source.arrays}
    if name:
        rows[name][index] = value
    with ArrayStoreWriter(store, list(source.arrays.values()), key_config=config, batch_rows=BATCH_ROWS) as writer:
        writer.write_batch(rows, keys=source.keys()[:n_rows])
        writer.finalize(compute_fingerprint(config, {}))
    return store


@pytest.mark.parametrize(
    ("name", "index", "value"),
    [
        ("target_states", (N_ROWS - 1, 0, 2), np.nan),
        ("target_states", (0, 0, 2), 5.0),
        ("source_states", (60, 1, 2), np.inf),
        ("redraws", (81, 2), 17),
        ("target_tokens", (0, 4, 2), 1),
    ],
)
def test_a_fault_is_found(world: FrozenWorld, tmp_path: Path, name: str, index: tuple[int, ...], value: float) -> None:
    found = checked(world, rewritten(world, tmp_path / "store", name, index, value))
    failed = {check.name for check in found.values() if not check.passed}
    assert failed == {*FROZEN_CHECKS[2 if np.isfinite(value) else 1 : 3]}
    rows = found[FROZEN_CHECKS[2]].rows
    assert {row["array"] for row in rows} == {name}
    assert (rows[0]["epoch"], rows[0]["batch"]) == (index[0] // N_VISITS, index[0] % N_VISITS // BATCH_ROWS)


def test_a_missing_row_fails_every_check(world: FrozenWorld, tmp_path: Path) -> None:
    found = checked(world, rewritten(world, tmp_path / "store", None))
    assert not any(check.passed for check in found.values())


def test_what_was_intact_passes(world: FrozenWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks_module, "_SWEPT_ROWS", 7)
    found = checked(world, world.store)
    assert all(check.passed for check in found.values())
    assert found[FROZEN_CHECKS[2]].figures["largest_difference"] == 0.0
    assert found[FROZEN_CHECKS[2]].figures["compared"] == N_ROWS * OPTIONS["n_edits"]
    assert writer_module.BATCH_ROWS == BATCH_ROWS
