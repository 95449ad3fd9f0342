"""Intervals (0-based half-open), and the only conversions to and from 1-based VCF positions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from genolewm_assets.errors import IntervalError

Int64Array = NDArray[np.int64]
Position = TypeVar("Position", int, Int64Array)


def start_from_pos(pos: Position) -> Position:
    """Convert 1-based VCF POS, an int or an int64 array of any shape, to a 0-based start of the same type and shape.

    Raises
    ------
    IntervalError
        If a position is under 1.
    """
    lowest = pos if isinstance(pos, int) else int(pos.min(initial=1))
    if lowest < 1:
        raise IntervalError("POS", "not a 1-based position", expected="at least 1", got=f"{lowest}")
    return pos - 1


def pos_from_start(start: Position) -> Position:
    """Convert a 0-based start, an int or an int64 array of any shape, to 1-based VCF POS of the same type and shape.

    Raises
    ------
    IntervalError
        If a start is negative.
    """
    lowest = start if isinstance(start, int) else int(start.min(initial=0))
    if lowest < 0:
        raise IntervalError("start", "not a 0-based position", expected="at least 0", got=f"{lowest}")
    return start + 1


@dataclass(frozen=True, slots=True, order=True)
class Interval:
    """An interval ``[start, end)`` of one contig.

    Parameters
    ----------
    start, end
        0-based half-open. If the interval wraps around a circular contig, ``end`` exceeds the contig's length.

    Raises
    ------
    IntervalError
        Unless ``0 <= start <= end``.
    """

    contig: str
    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise IntervalError(
                f"{self.contig}:{self.start}-{self.end}", "not an interval", expected="0 <= start <= end", got=str(self)
            )

    def __str__(self) -> str:
        return f"{self.contig}[{self.start}, {self.end})"


@dataclass(frozen=True, slots=True, eq=False)
class IntervalArray:
    """Intervals of one contig as two arrays; the contig's name is not stored.

    Parameters
    ----------
    start, end
        int64, shape (n,), 0-based half-open, sorted by (start, end). Stored as read-only copies. Intervals may overlap
        and may be empty.

    Raises
    ------
    IntervalError
        If the shapes differ or are not one-dimensional, ``start < 0``, ``end < start``, or the intervals are not
        sorted; :meth:`from_unsorted` sorts them.
    """

    start: Int64Array
    end: Int64Array

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            column = np.array(getattr(self, name), dtype=np.int64)
            column.setflags(write=False)
            object.__setattr__(self, name, column)
        self._check()

    def _check(self) -> None:
        start, end = self.start, self.end
        if start.ndim != 1 or start.shape != end.shape:
            raise IntervalError(
                "intervals",
                "start and end differ in shape or are not one-dimensional",
                expected="two 1-d arrays of equal length",
                got=f"shapes {start.shape} and {end.shape}",
            )
        wrong = np.flatnonzero((start < 0) | (end < start))
        if wrong.size:
            i = int(wrong[0])
            raise IntervalError(
                f"interval {i}", "not an interval", expected="0 <= start <= end", got=f"[{start[i]}, {end[i]})"
            )
        wrong = np.flatnonzero((start[1:] < start[:-1]) | ((start[1:] == start[:-1]) & (end[1:] < end[:-1])))
        if wrong.size:
            raise IntervalError(
                f"interval {int(wrong[0]) + 1}",
                "precedes the interval before it",
                expected="intervals sorted by (start, end)",
                remedy="Use IntervalArray.from_unsorted",
            )

    @classmethod
    def from_unsorted(cls, start: ArrayLike, end: ArrayLike) -> IntervalArray:
        """Sort intervals by (start, end) and return them as an array.

        Parameters
        ----------
        start, end
            Array-likes convertible to int64, shape (n,), 0-based half-open, in any order.

        Raises
        ------
        IntervalError
            If the shapes differ or are not one-dimensional, ``start < 0``, or ``end < start``.
        """
        start, end = np.asarray(start, dtype=np.int64), np.asarray(end, dtype=np.int64)
        if start.shape != end.shape:
            return cls(start, end)
        order = np.lexsort((end, start))
        return cls(start[order], end[order])

    def __len__(self) -> int:
        return len(self.start)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self.start.tolist(), self.end.tolist(), strict=True)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IntervalArray):
            return NotImplemented
        return np.array_equal(self.start, other.start) and np.array_equal(self.end, other.end)

    __hash__ = None  # type: ignore[assignment]

    @property
    def size(self) -> Int64Array:
        """Length of each interval in bases: int64, shape (n,)."""
        return self.end - self.start

    def merge(self) -> IntervalArray:
        """Return the union as disjoint intervals; adjacent intervals are joined, empty ones are removed."""
        filled = self.size > 0
        start, end = self.start[filled], self.end[filled]
        reach = np.maximum.accumulate(end)
        first = np.concatenate(([True], start[1:] > reach[:-1])) if start.size else np.zeros(0, bool)
        last = np.flatnonzero(first)[1:] - 1
        return IntervalArray(start[first], reach[np.concatenate((last, [start.size - 1]))] if start.size else end)

    def overlap_bases(self, query: IntervalArray) -> Int64Array:
        """Count the bases of each query that are in at least one interval of this array: int64, shape (len(query),)."""
        merged = self.merge()
        return merged._covered_before(query.end) - merged._covered_before(query.start)

    def _covered_before(self, at: Int64Array) -> Int64Array:
        """Return the number of covered bases left of each position; the intervals must be disjoint."""
        total = np.concatenate(([0], np.cumsum(self.size)))
        ends = np.concatenate(([0], self.end))
        index = np.searchsorted(self.start, at, side="left")
        covered: Int64Array = total[index] - np.maximum(0, ends[index] - at) * (index > 0)
        return covered


#: No interval.
NO_INTERVALS = IntervalArray(np.zeros(0, np.int64), np.zeros(0, np.int64))


def first_met(intervals: IntervalArray, start: Int64Array, end: Int64Array) -> Int64Array:
    """Return the index of the first interval that shares a base with each query ``[start, end)``.

    Parameters
    ----------
    intervals
        They may overlap one another.
    start, end
        Queries in any order, each int64, shape (n,), 0-based half-open.

    Returns
    -------
    ndarray
        int64, shape (n,): index into ``intervals``; -1 if no interval overlaps the query or the query is empty.
    """
    # The first interval that ends after the query's start meets the query, or none does: later ones start later.
    index = np.searchsorted(np.maximum.accumulate(intervals.end), start, side="right")
    begins = np.append(intervals.start, np.iinfo(np.int64).max)[index]
    return np.where((begins < end) & (start < end), index, -1).astype(np.int64)


def meets(intervals: IntervalArray, start: Int64Array, end: Int64Array) -> NDArray[np.bool_]:
    """Return which queries, as those of :func:`first_met`, share a base with an interval: bool, shape (n,)."""
    found: NDArray[np.bool_] = first_met(intervals, start, end) >= 0
    return found
