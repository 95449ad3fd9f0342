"""The array stores that are measured: made of seeded rows, finished or cut off after the last commit."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt

from genolewm_assets.store import ArrayStoreWriter, compute_fingerprint
from genolewm_assets.store.arrays.layout import ArraySpec

ARRAY = "states"
_BLOCK_ROWS = 4_096
_CONFIG = {"measured": True}


def row_blocks(n_rows: int, row_values: int) -> Iterator[npt.NDArray[np.float16]]:
    """Yield so many rows in blocks, the same each time, no two of them alike."""
    block = np.random.default_rng(6).standard_normal((_BLOCK_ROWS, row_values)).astype(np.float16)
    for first in range(0, n_rows, _BLOCK_ROWS):
        yield np.roll(block, first // _BLOCK_ROWS, axis=1)[: n_rows - first]


def row_keys(n_rows: int) -> list[str]:
    """Return as many keys, as long as the SHA-256 of a window."""
    return [f"{row:064x}" for row in range(n_rows)]


def open_writer(directory: Path, row_values: int, **options: Any) -> ArrayStoreWriter:
    """Open a writer of one float16 array."""
    return ArrayStoreWriter(directory, [ArraySpec(ARRAY, (row_values,), "float16")], key_config=_CONFIG, **options)


def finish(writer: ArrayStoreWriter) -> None:
    """Finish a store."""
    writer.finalize(compute_fingerprint(_CONFIG, {}))


def make_unfinished(directory: Path, n_rows: int, row_values: int) -> None:
    """Make a store whose rows are committed in groups of the default size, and that is not finished."""
    keys = row_keys(n_rows)
    with without_syncs(), open_writer(directory, row_values) as writer:
        for rows in row_blocks(n_rows, row_values):
            first = writer.n_rows
            writer.write_batch({ARRAY: rows}, keys=keys[first : first + len(rows)])
    os.sync()


def make_finished(directory: Path, unfinished: Path, row_values: int) -> None:
    """Finish another store of the same rows; it shares the file of the array."""
    shutil.copytree(unfinished, directory, copy_function=_copy)
    with without_syncs():
        finish(open_writer(directory, row_values))
    os.sync()


def _copy(source: str, target: str) -> None:
    (os.link if source.endswith(".bin") else shutil.copy)(source, target)


@contextmanager
def without_syncs() -> Iterator[None]:
    """Take the syncs out of what is not measured."""
    with counted_syncs(sync=False):
        yield


@contextmanager
def counted_syncs(*, sync: bool = True) -> Iterator[Mapping[str, int]]:
    """Count the calls that wait for the disk, by their name."""
    counts = {"fsync": 0, "fdatasync": 0}

    def counting(name: str) -> Any:
        real = getattr(os, name)

        def call(file: int) -> None:
            counts[name] += 1
            if sync:
                real(file)

        return call

    with mock.patch.multiple(os, **{name: counting(name) for name in counts}):
        yield counts
