"""The order of alleles, (pos, ref, alt) by byte: rows of one contig put into it without holding all of them."""

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

#: Columns of the normal form; ``pos`` is 1-based.
KEY: tuple[tuple[str, pa.DataType], ...] = (("pos", pa.int64()), ("ref", pa.string()), ("alt", pa.string()))

_Ints = npt.NDArray[np.int64]
_END = np.iinfo(np.int64).max
#: Rows between two that are left out, on average, from which on they are copied together.
_STRETCH_ROWS = 64


class LowMarks:
    """Smallest position of each of many batches, and so of all rows that follow a given one."""

    def __init__(self) -> None:
        self._ends: list[int] = []
        self._lows: list[int] = []
        self._following: _Ints | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Note the next rows; they have a column ``pos``."""
        if batch.num_rows:
            before = self._ends[-1] if self._ends else 0
            self._ends.append(before + batch.num_rows)
            self._lows.append(int(numbers_of(batch["pos"]).min()))
            self._following = None

    def after(self, rows: int) -> int:
        """Return a position that none of the rows that follow the first ``rows`` lies below."""
        if self._following is None:
            lows = np.array([*self._lows, _END], dtype=np.int64)
            self._following = np.minimum.accumulate(lows[::-1])[::-1]
        return int(self._following[np.searchsorted(self._ends, rows, side="right")])


class OutOfOrderError(Exception):
    """Rows came too late: of a position that was taken for final, or of a contig that was left."""


class SlidingMarks:
    """What no later row is expected to lie below: so far behind the furthest row that no allele should move there.

    Parameters
    ----------
    reach_bp
        How far behind.
    """

    def __init__(self, reach_bp: int) -> None:
        self._reach_bp = reach_bp
        self._furthest = 0
        self._bound = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Note the next rows.

        Raises
        ------
        OutOfOrderError
            If one lies below what :meth:`after` has returned.
        """
        if batch.num_rows:
            pos = numbers_of(batch["pos"])
            if int(pos.min()) < self._bound:
                raise OutOfOrderError
            self._furthest = max(self._furthest, int(pos.max()))

    def after(self, rows: int) -> int:
        """Return the position from which on rows are still expected; it is the same for any number of ``rows``."""
        del rows
        self._bound = max(self._bound, self._furthest - self._reach_bp)
        return self._bound


class _Run(NamedTuple):
    """Rows in order, and their positions."""

    batch: pa.RecordBatch
    pos: _Ints

    def below(self, pos: int) -> int:
        """Return how many rows lie below a position."""
        return int(np.searchsorted(self.pos, pos))

    def part(self, start: int, end: int) -> _Run:
        return _Run(self.batch.slice(start, end - start), self.pos[start:end])


def order_alleles(batches: Iterable[pa.RecordBatch], marks: LowMarks | SlidingMarks) -> Iterator[pa.RecordBatch]:
    """Yield the rows in order; rows of one position come in one batch.

    Parameters
    ----------
    batches
        With the columns ``KEY``, cut anywhere.
    marks
        Of the same rows in the same order.

    Notes
    -----
    Rows are held until all that follow lie above them. They are merged only when half of those held are free to go, so
    that no order of the rows makes the work more than that of sorting them a few times.
    """
    held: list[_Run] = []
    seen = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        seen += batch.num_rows
        held.append(_sorted_run(batch))
        bound = marks.after(seen)
        free = [run.below(bound) for run in held]
        if 2 * sum(free) >= sum(len(run.pos) for run in held):
            yield from _merged([run.part(0, end) for run, end in zip(held, free, strict=True) if end])
            held = [run.part(end, len(run.pos)) for run, end in zip(held, free, strict=True) if end < len(run.pos)]
    yield from _merged(held)


def find_repeats(batch: pa.RecordBatch) -> tuple[_Ints, _Ints]:
    """Return the rows of a sorted batch whose key another row has too, and a number per row that is one per key."""
    same = _steps(batch) == 0
    if not same.any():
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    rows = np.flatnonzero(np.append(same, [False]) | np.insert(same, 0, [False]))
    groups = np.cumsum(np.insert(~same, 0, [True]))[rows]
    return rows, groups


def without_rows(batch: pa.RecordBatch, rows: _Ints) -> pa.RecordBatch:
    """Leave out some rows, given in ascending order.

    If they are few, what lies between them is copied in stretches: a fifth of the time that a mask takes.
    """
    if not len(rows):
        return batch
    if len(rows) > batch.num_rows // _STRETCH_ROWS:
        keep = np.ones(batch.num_rows, dtype=bool)
        keep[rows] = False
        return batch.filter(number_column(keep))
    borders = [-1, *rows.tolist(), batch.num_rows]
    stretches = [batch.slice(start + 1, end - start - 1) for start, end in pairwise(borders)]
    return pa.concat_batches(stretches)


def columns_of(batch: pa.RecordBatch, pos: str = "pos", ref: str = "ref", alt: str = "alt") -> AlleleColumns:
    """Return three columns for compiled loops, without copying them."""
    from genolewm_assets.variants.kernels import AlleleColumns

    return AlleleColumns(numbers_of(batch[pos]), *_texts(batch[ref]), *_texts(batch[alt]))


def _texts(column: pa.Array) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """Return where each text of a string column begins, shape (rows + 1,), and all bytes."""
    if not len(column):
        column = pa.array([""], pa.string())
    _, offsets, text = column.buffers()
    starts = np.frombuffer(offsets, dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    letters = np.frombuffer(text or b"", dtype=np.uint8)
    # Of one kind always: loops are compiled once for read-only arrays and once for others.
    starts.flags.writeable = letters.flags.writeable = False
    return starts, letters


def _steps(batch: pa.RecordBatch) -> npt.NDArray[np.int8]:
    """Return how each row stands to the next: -1 before it, 0 equal, 1 after it."""
    from genolewm_assets.variants.kernels import compare_neighbours

    steps: npt.NDArray[np.int8] = compare_neighbours(columns_of(batch))
    return steps


def _sorted_run(batch: pa.RecordBatch) -> _Run:
    """Return rows in order; they are moved only if they are not."""
    if (_steps(batch) > 0).any():
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


def _merged(runs: Sequence[_Run]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all runs in order; runs that lie apart are not touched."""
    together: list[_Run] = []
    reach = 0
    for run in sorted(runs, key=lambda each: int(each.pos[0])):
        if together and run.pos[0] > reach:
            yield from _interleaved(together)
            together, reach = [], 0
        together.append(run)
        reach = max(reach, int(run.pos[-1]))
    if together:
        yield from _interleaved(together)


def _interleaved(runs: list[_Run]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of overlapping runs, sorted by their first position, in order; sort only where two overlap."""
    if len(runs) == 1:
        yield runs[0].batch
        return
    # Below the second run's begin there are rows of the first one only; above the last end but one, of one run too.
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
