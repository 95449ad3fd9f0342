"""Tasks that read random rows of an array, one row or one batch per call, and compare them with the written rows.

This module uses NumPy only, because the peers' environment runs it too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

#: Number of float16 values per row; number of rows per batch.
ROW_VALUES, BATCH_ROWS = 1_024, 256
#: Kinds of reads: a row or a batch of rows per call.
READS = ("row", "batch")
_BATCHES = 400
# Shorter than the time slice after which the operating system switches to another process.
_RUN_S, _TRIED = 0.003, 30


@dataclass(frozen=True, slots=True)
class Way:
    """One way to read an array.

    Attributes
    ----------
    row
        Returns row n, float16, shape (ROW_VALUES,); a view if the store can return one.
    batch
        Returns rows by their numbers (int64, shape (BATCH_ROWS,)), float16, shape (BATCH_ROWS, ROW_VALUES).
    """

    row: Callable[[int], npt.NDArray[np.float16]]
    batch: Callable[[npt.NDArray[np.int64]], npt.NDArray[np.float16]]


def open_rows(path: Path) -> np.memmap[Any, np.dtype[np.float16]]:
    """Return a memory map of a file of rows, float16, shape (rows, ROW_VALUES)."""
    return np.memmap(path, np.float16, mode="r").reshape(-1, ROW_VALUES)


def read_tasks(ways: Mapping[str, Way], rows: npt.NDArray[np.float16]) -> dict[str, Callable[[], int]]:
    """Return a task ``<way>/<read>`` for each way and kind of read; a task returns its number of reads per run.

    All ways read the same random rows in the same order. Beforehand each way reads all rows once, and they are compared
    with ``rows``.

    Raises
    ------
    AssertionError
        If a way returns other rows.
    """
    batches = list(np.random.default_rng(6).integers(0, len(rows), (_BATCHES, BATCH_ROWS)))
    single = [int(row) for batch in batches for row in batch]
    tasks = {}
    for name, way in ways.items():
        for row in single[:BATCH_ROWS]:
            _check(name, way.row(row), rows[row])
        for first in range(0, len(rows), BATCH_ROWS):
            batch = np.arange(first, min(first + BATCH_ROWS, len(rows)))
            _check(name, way.batch(batch), rows[batch])
        _check(name, way.batch(batches[0]), rows[batches[0]])
        tasks[f"{name}/row"] = _repeated(way.row, single)
        tasks[f"{name}/batch"] = _repeated(way.batch, batches)
    return tasks


def _check(name: str, found: npt.NDArray[np.float16], wanted: npt.NDArray[np.float16]) -> None:
    same = isinstance(found, np.ndarray) and found.dtype == wanted.dtype and np.array_equal(found, wanted)
    if not same:
        raise AssertionError(f"{name}: the rows read differ from the rows written")


def _repeated(read: Callable[[Any], object], wanted: Sequence[object]) -> Callable[[], int]:
    """Return a function that repeats a read as often as takes about ``_RUN_S`` without interruption."""
    fastest = _RUN_S
    for each in wanted[:_TRIED]:
        started = time.perf_counter()
        read(each)
        fastest = min(fastest, time.perf_counter() - started)
    times = round(_RUN_S / fastest)

    def run() -> int:
        for each in islice(cycle(wanted), times):
            read(each)
        return times

    return run
