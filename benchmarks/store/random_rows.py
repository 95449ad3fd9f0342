"""Reading random rows of an array, one at a time and many at once: which rows, how often, and whether they are right.

NumPy only, because the peers' environment runs it too.
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

#: Values of a row, float16; rows of a batch.
ROW_VALUES, BATCH_ROWS = 1_024, 256
#: What is read in one call: a row, or a batch of rows.
READS = ("row", "batch")
_BATCHES = 400
# Less than the operating system leaves a process before it lets another one have the core.
_RUN_S, _TRIED = 0.003, 30


@dataclass(frozen=True, slots=True)
class Way:
    """One way to read an array.

    Attributes
    ----------
    row
        Gives row number n, shape (ROW_VALUES,), float16; a view where the store can give one.
    batch
        Gives rows by their numbers, int64, shape (BATCH_ROWS,): shape (BATCH_ROWS, ROW_VALUES), float16.
    """

    row: Callable[[int], npt.NDArray[np.float16]]
    batch: Callable[[npt.NDArray[np.int64]], npt.NDArray[np.float16]]


def open_rows(path: Path) -> np.memmap[Any, np.dtype[np.float16]]:
    """Map a file of rows."""
    return np.memmap(path, np.float16, mode="r").reshape(-1, ROW_VALUES)


def read_tasks(ways: Mapping[str, Way], rows: npt.NDArray[np.float16]) -> dict[str, Callable[[], int]]:
    """Return a task for each way and read, named ``<way>/<read>``; it returns how many reads one run of it is.

    All ways read the same random rows in the same order. Before, each is held against ``rows``, and reads all once.

    Raises
    ------
    AssertionError
        If a way gives other rows.
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
        raise AssertionError(f"{name}: reads other rows than were written")


def _repeated(read: Callable[[Any], object], wanted: Sequence[object]) -> Callable[[], int]:
    """Return a function that reads as often as takes about ``_RUN_S`` where nothing comes in between."""
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
