"""Keys that a store holds already: found as a set of them finds them, also where hashes collide."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.errors import InputError
from genolewm_assets.store.arrays import ArraySpec, ArrayStoreReader, ArrayStoreWriter, compute_fingerprint, rows
from genolewm_assets.store.arrays.rows import KnownKeys


def same(_: str) -> int:
    return 7


def few(key: str) -> int:
    return len(key) - 2


@pytest.mark.parametrize("hash_of", [rows.hash_of, few, same])
@given(batches=st.lists(st.lists(st.text("ab", max_size=3), max_size=5), max_size=12), recent=st.integers(1, 6))
def test_it_objects_to_what_a_set_holds_and_to_nothing_else(
    hash_of: Callable[[str], int], batches: list[list[str]], recent: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "hash_of", hash_of)
        patch.setattr(rows, "_RECENT", recent)
        added: set[str] = set()
        known = KnownKeys(lambda: added)
        for batch in batches:
            repeated = next((key for key in batch if key in added or batch.count(key) > 1), None)
            assert known.find_repeated(batch) == repeated
            if repeated is None:
                known.add(batch)
                added.update(batch)


def test_eight_bytes_a_key_are_kept() -> None:
    known = KnownKeys(list)
    for first in range(0, 200_000, 64):
        known.add([str(row) for row in range(first, first + 64)])
    assert sum(run.nbytes for run in known._runs) + 8 * len(known._recent) == 8 * 200_000
    assert len(known._runs) < 12


def test_a_store_takes_keys_of_one_hash_and_refuses_them_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "hash_of", same)
    keys = [f"chr21:{row}" for row in range(30)]

    def open_store() -> ArrayStoreWriter:
        return ArrayStoreWriter(tmp_path, [ArraySpec("a", (), "int32")], key_config={}, commit_rows=8, commit_ms=None)

    def write(writer: ArrayStoreWriter, first: int, stop: int) -> None:
        writer.write_batch({"a": np.arange(first, stop)}, keys=keys[first:stop])

    with open_store() as writer:
        write(writer, 0, 20)
        # Committed rows, and those that wait for a commit.
        for row in (3, 17, 19):
            with pytest.raises(InputError, match=f"written before: got 'chr21:{row}'"):
                write(writer, row, row + 1)
    with open_store() as writer:
        with pytest.raises(InputError, match="written before: got 'chr21:19'"):
            write(writer, 19, 21)
        write(writer, 20, 30)
        writer.finalize(compute_fingerprint({}, {}))
    assert ArrayStoreReader(tmp_path).keys() == keys
