"""Sort the alleles of one contig by (pos, ref, alt), bytewise, without holding all rows in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.store.tables import number_column, numbers_of

if TYPE_CHECKING:
    from genolewm_assets.variants.kernels import AlleleColumns

#: Columns of the normal form, which is the sort key; ``pos`` is 1-based.
KEY: tuple[tuple[str, pa.DataType], ...] = (("pos", pa.int64()), ("ref", pa.string()), ("alt", pa.string()))

_Ints = npt.NDArray[np.int64]
_END = np.iinfo(np.int64).max
#: If at most one row in this many is removed, the others are copied as slices; else a mask selects them.
_SLICE_ROWS = 64


class LowMarks:
    """Smallest position of each batch of a sequence, and from these of all rows after a given one."""

    def __init__(self) -> None:
        self._ends: list[int] = []
        self._lows: list[int] = []
        self._following: _Ints | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Record the next batch; it has a column ``pos``."""
        if batch.num_rows:
            before = self._ends[-1] if self._ends else 0
            self._ends.append(before + batch.num_rows)
            self._lows.append(int(numbers_of(batch["pos"]).min()))
            self._following = None

    def after(self, rows: int) -> int:
        """Return a lower bound of the positions after the first ``rows``, 1-based; the largest int64 without any."""
        if self._following is None:
            lows = np.array([*self._lows, _END], dtype=np.int64)
            self._following = np.minimum.accumulate(lows[::-1])[::-1]
        return int(self._following[np.searchsorted(self._ends, rows, side="right")])


class _Run(NamedTuple):
    """A sorted batch and its positions."""

    batch: pa.RecordBatch
    pos: _Ints

    def below(self, pos: int) -> int:
        """Return how many rows have a position below ``pos``."""
        return int(np.searchsorted(self.pos, pos))

    def part(self, start: int, end: int) -> _Run:
        """Return the rows ``start`` to ``end``, exclusive."""
        return _Run(self.batch.slice(start, end - start), self.pos[start:end])


def order_alleles(batches: Iterable[pa.RecordBatch], marks: LowMarks) -> Iterator[pa.RecordBatch]:
    """Yield the rows sorted by ``KEY``; all rows of one position are in one batch."""
    held: list[_Run] = []
    seen = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        seen += batch.num_rows
        held.append(_sorted_run(batch))
        bound = marks.after(seen)
        free = [run.below(bound) for run in held]
        # Merged once half of the rows are final, so that the work is that of sorting all rows a few times.
        if 2 * sum(free) >= sum(len(run.pos) for run in held):
            yield from _merge_runs([run.part(0, end) for run, end in zip(held, free, strict=True) if end])
            held = [run.part(end, len(run.pos)) for run, end in zip(held, free, strict=True) if end < len(run.pos)]
    yield from _merge_runs(held)


def find_repeats(batch: pa.RecordBatch) -> tuple[_Ints, _Ints]:
    """Return the rows of a sorted batch that share their key with another, int64, ascending, and a number per key."""
    same = _compare_rows(batch) == 0
    if not same.any():
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    rows = np.flatnonzero(np.append(same, [False]) | np.insert(same, 0, [False]))
    groups = np.cumsum(np.insert(~same, 0, [True]))[rows]
    return rows, groups


def without_rows(batch: pa.RecordBatch, rows: _Ints) -> pa.RecordBatch:
    """Return a batch without the given rows, ascending; a few are cut out by slices, at a fifth of a mask's time."""
    if not len(rows):
        return batch
    if len(rows) > batch.num_rows // _SLICE_ROWS:
        keep = np.ones(batch.num_rows, dtype=bool)
        keep[rows] = False
        return batch.filter(number_column(keep))
    borders = [-1, *rows.tolist(), batch.num_rows]
    slices = [batch.slice(start + 1, end - start - 1) for start, end in pairwise(borders)]
    return pa.concat_batches(slices)


def columns_of(batch: pa.RecordBatch, pos: str = "pos", ref: str = "ref", alt: str = "alt") -> AlleleColumns:
    """Return three columns as arrays for the compiled loops, without copying them."""
    from genolewm_assets.variants.kernels import AlleleColumns

    return AlleleColumns(numbers_of(batch[pos]), *_texts(batch[ref]), *_texts(batch[alt]))


def _texts(column: pa.Array) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """Return the offsets of a string column, int32, shape (rows + 1,), and its bytes, uint8."""
    if not len(column):
        column = pa.array([""], pa.string())
    _, offsets, text = column.buffers()
    starts = np.frombuffer(offsets, dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    letters = np.frombuffer(text or b"", dtype=np.uint8)
    # Always read-only: numba compiles a loop again for writable arrays.
    starts.flags.writeable = letters.flags.writeable = False
    return starts, letters


def _compare_rows(batch: pa.RecordBatch) -> npt.NDArray[np.int8]:
    """Compare each row with the next: int8, shape (rows - 1,): -1 smaller, 0 equal, 1 larger."""
    from genolewm_assets.variants.kernels import compare_neighbours

    steps: npt.NDArray[np.int8] = compare_neighbours(columns_of(batch))
    return steps


def _sorted_run(batch: pa.RecordBatch) -> _Run:
    """Return a batch sorted by ``KEY``; a batch that is already sorted is not copied."""
    if (_compare_rows(batch) > 0).any():
        batch = batch.take(number_column(_order(batch)))
    return _Run(batch, numbers_of(batch["pos"]))


def _order(batch: pa.RecordBatch) -> _Ints:
    from genolewm_assets.variants.kernels import order_ties

    columns = columns_of(batch)
    order: _Ints = np.argsort(columns.pos, kind="stable")
    if order_ties(order, columns):
        return order
    table = batch.select([name for name, _ in KEY])
    found = pc.sort_indices(table, sort_keys=[(name, "ascending") for name, _ in KEY])
    return numbers_of(found).astype(np.int64)


def _merge_runs(runs: Sequence[_Run]) -> Iterator[pa.RecordBatch]:
    """Merge sorted runs; runs that overlap no other are yielded unchanged."""
    together: list[_Run] = []
    reach = 0
    for run in sorted(runs, key=lambda each: int(each.pos[0])):
        if together and run.pos[0] > reach:
            yield from _merge_overlapping(together)
            together, reach = [], 0
        together.append(run)
        reach = max(reach, int(run.pos[-1]))
    if together:
        yield from _merge_overlapping(together)


def _merge_overlapping(runs: list[_Run]) -> Iterator[pa.RecordBatch]:
    """Merge overlapping runs, given by ascending first position; only the part where runs overlap is sorted."""
    if len(runs) == 1:
        yield runs[0].batch
        return
    # Only the first run has rows below the second run's start, and only one run has rows above the second-largest end.
    begin = int(runs[1].pos[0])
    last = max(range(len(runs)), key=lambda at: int(runs[at].pos[-1]))
    end = max(int(run.pos[-1]) for at, run in enumerate(runs) if at != last)
    head = runs[0].below(begin)
    tail = runs[last].below(end + 1)
    yield from (part.batch for part in [runs[0].part(0, head)] if head)
    after = runs[last].part(tail, len(runs[last].pos))
    runs[last] = runs[last].part(0, tail)
    runs[0] = runs[0].part(head, len(runs[0].pos))
    yield _sorted_run(pa.concat_batches([run.batch for run in runs])).batch
    if len(after.pos):
        yield after.batch
