from __future__ import annotations

import os
import pickle
import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from genolewm_assets.errors import GenoLeWMError
from genolewm_assets.store import ArrayStoreReader, ArrayStoreWriter, compute_fingerprint
from genolewm_assets.store.arrays.layout import ArraySpec
from genolewm_assets.store.arrays.memory import MemoryLimitError, check_fits_memory, usable_memory_bytes
from genolewm_assets.store.files import resident
from genolewm_assets_tests.referees.resident_pages import resident_bytes

PHYSICAL = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def usable(tmp_path: Path, groups: str, limits: dict[str, str]) -> int:
    (tmp_path / "groups").write_text(groups)
    for name, text in limits.items():
        (tmp_path / "cgroup" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "cgroup" / name).write_text(text)
    return usable_memory_bytes(proc=tmp_path / "groups", cgroup=tmp_path / "cgroup")


@pytest.mark.parametrize(
    ("groups", "limits", "expected"),
    [
        ("", {}, PHYSICAL),
        ("0::/\n", {"memory.max": "1000000\n"}, 1_000_000),
        ("0::/\n", {"memory.max": "max\n"}, PHYSICAL),
        ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/memory.max": "2000\n", "memory.max": "3000"}, 2000),
        ("0::/not/visible\n", {"memory.max": "3000"}, 3000),
        ("4:memory:/x\n", {"memory/x/memory.limit_in_bytes": "5000", "memory/memory.limit_in_bytes": "9000"}, 5000),
        ("4:memory:/x\n", {"memory/memory.limit_in_bytes": "9223372036854771712"}, PHYSICAL),
        ("3:cpuset:/x\n4:cpu,memory:/y\n0::/\n", {"memory/y/memory.limit_in_bytes": "7"}, 7),
        ("0::/a:b\n", {"a:b/memory.max": "11"}, 11),
    ],
)
def test_the_lowest_limit_counts(tmp_path: Path, groups: str, limits: dict[str, str], expected: int) -> None:
    assert usable(tmp_path, groups, limits) == expected


def test_this_process_may_use_something() -> None:
    assert 0 < usable_memory_bytes() <= PHYSICAL


def test_a_refusal_names_both_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("genolewm_assets.store.arrays.memory.usable_memory_bytes", lambda: 64 * 2**30)
    check_fits_memory(32 * 2**30, 0.5, "cache")
    with pytest.raises(MemoryLimitError) as raised:
        check_fits_memory(int(42.3 * 2**30), 0.5, "cache")
    assert str(raised.value) == (
        "cache: loading into memory refused: the array store would use 42.3 GB, which exceeds 50% of the 64.0 GB this "
        "process may use. Read it from disk (load_in_memory=False)."
    )
    assert isinstance(raised.value, RuntimeError)
    assert isinstance(raised.value, GenoLeWMError)


ROWS, VALUES = 512, 4_096
KEPT_BYTES = 1 << 20
CONFIG = {"encoder": "wide"}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Write two stores of 4 MiB each."""
    folder = tmp_path_factory.mktemp("memory")
    return [_written(folder / name) for name in ("one", "other")]


def _written(directory: Path) -> Path:
    arrays = (ArraySpec("states", (VALUES // 2,), "float32"),)
    with ArrayStoreWriter(directory, arrays=arrays, key_config=CONFIG, batch_rows=16) as writer:
        rows = np.arange(ROWS * VALUES // 2, dtype=np.float32).reshape(ROWS, -1)
        writer.write_batch({"states": rows}, keys=[str(row) for row in range(ROWS)])
        writer.finalize(compute_fingerprint(CONFIG, {}))
    return directory


READS: dict[str, Callable[[ArrayStoreReader, int], object]] = {
    "row": lambda reader, row: reader.get_row(row)["states"].sum(),
    "slice": lambda reader, row: reader.get_slice(row, row + 1).sum(),
    "rows": lambda reader, row: reader.get_rows([row]),
    "checked": lambda reader, row: reader.checked([row])[row].sum(),
}


@pytest.mark.nightly
@pytest.mark.parametrize("how", READS)
@pytest.mark.parametrize("check", [False, True])
def test_pages_of_all_readers_together_are_given_back(
    stores: list[Path], monkeypatch: pytest.MonkeyPatch, how: str, check: bool
) -> None:
    monkeypatch.setenv(resident.SETTING, "0")
    monkeypatch.setattr(resident, "LEAST_BYTES", KEPT_BYTES)
    monkeypatch.setattr(resident._Maps, "in_use", weakref.WeakKeyDictionary())
    monkeypatch.setattr(resident, "_UNSEEN_BYTES", KEPT_BYTES // 4)
    readers = [ArrayStoreReader(store, check=check, keep_pages=False) for store in stores]
    largest = 0
    for row in np.random.default_rng(1).permutation(ROWS).tolist():
        for reader in readers:
            READS[how](reader, row)
            largest = max(largest, resident_bytes(stores) if row % 16 == 0 else 0)
    assert 0 < largest <= 2 * KEPT_BYTES


def test_by_default_they_stay(stores: list[Path]) -> None:
    reader = ArrayStoreReader(stores[0])
    assert reader.get_rows(range(ROWS)).nbytes == 4 << 20
    assert resident_bytes(stores) >= 4 << 20


def test_arrays_stay_valid_and_a_pickle_keeps_the_choice(stores: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(resident.SETTING, "0")
    monkeypatch.setattr(resident._Maps, "in_use", weakref.WeakKeyDictionary())
    monkeypatch.setattr(resident, "LEAST_BYTES", -(1 << 40))
    monkeypatch.setattr(resident, "_UNSEEN_BYTES", 0)
    reader = pickle.loads(pickle.dumps(ArrayStoreReader(stores[0], keep_pages=False)))
    assert not reader.keep_pages
    first = reader.get_row(3)["states"]
    before = first.copy()
    reader.get_rows(range(ROWS))
    np.testing.assert_array_equal(first, before)
