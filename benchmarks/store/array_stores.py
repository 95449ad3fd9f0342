"""Array stores to measure: seeded rows, in a finished store or in one interrupted after its last commit."""

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
    """Yield ``n_rows`` seeded, distinct rows in blocks, float16, shape (up to 4096, row_values)."""
    block = np.random.default_rng(6).standard_normal((_BLOCK_ROWS, row_values)).astype(np.float16)
    for first in range(0, n_rows, _BLOCK_ROWS):
        yield np.roll(block, first // _BLOCK_ROWS, axis=1)[: n_rows - first]


def row_keys(n_rows: int) -> list[str]:
    """Return ``n_rows`` keys of 64 characters, the length of a SHA-256 in hex."""
    return [f"{row:064x}" for row in range(n_rows)]


def open_writer(directory: Path, row_values: int, **options: Any) -> ArrayStoreWriter:
    """Open a writer of a store with one float16 array of ``row_values`` per row."""
    return ArrayStoreWriter(directory, [ArraySpec(ARRAY, (row_values,), "float16")], key_config=_CONFIG, **options)


def finish(writer: ArrayStoreWriter) -> None:
    """Write the fingerprint of a store, so that it can be opened by readers."""
    writer.finalize(compute_fingerprint(_CONFIG, {}))


def make_unfinished(directory: Path, n_rows: int, row_values: int) -> None:
    """Write a store with commits of the default size, and leave it unfinished."""
    keys = row_keys(n_rows)
    with without_syncs(), open_writer(directory, row_values) as writer:
        for rows in row_blocks(n_rows, row_values):
            first = writer.n_rows
            writer.write_batch({ARRAY: rows}, keys=keys[first : first + len(rows)])
    os.sync()


def make_finished(directory: Path, unfinished: Path, row_values: int) -> None:
    """Make a finished store from an unfinished one; both share the file of the array by a hard link."""
    shutil.copytree(unfinished, directory, copy_function=_copy)
    with without_syncs():
        finish(open_writer(directory, row_values))
    os.sync()


def _copy(source: str, target: str) -> None:
    (os.link if source.endswith(".bin") else shutil.copy)(source, target)


@contextmanager
def without_syncs() -> Iterator[None]:
    """Disable ``fsync`` and ``fdatasync``, for steps that are not measured."""
    with counted_syncs(sync=False):
        yield


@contextmanager
def counted_syncs(*, sync: bool = True) -> Iterator[Mapping[str, int]]:
    """Count the calls of ``fsync`` and ``fdatasync`` by name; without ``sync``, they only count."""
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
