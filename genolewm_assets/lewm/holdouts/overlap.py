"""Test many intervals of a contig at once for overlap with a set of intervals.

Not here: arrays of intervals (``genome.intervals``), reference spans of alleles (``variants.spans``), the choice of
held-out intervals (``held_intervals``).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.genome import IntervalArray
from genolewm_assets.variants import Bools, Int64s

NO_INTERVALS = IntervalArray(np.zeros(0, np.int64), np.zeros(0, np.int64))


def merge_intervals(table: pa.Table) -> dict[str, IntervalArray]:
    """Return the union of a table's intervals by contig, as disjoint intervals sorted by start.

    Parameters
    ----------
    table
        Columns contig, start and end, 0-based half-open, in any order.
    """
    merged: dict[str, IntervalArray] = {}
    for contig in pc.unique(table["contig"]).to_pylist():
        rows = table.filter(pc.equal(table["contig"], contig))
        merged[contig] = IntervalArray.from_unsorted(rows["start"].to_numpy(), rows["end"].to_numpy()).merge()
    return merged


def meets(merged: IntervalArray, start: Int64s, end: Int64s) -> Bools:
    """Tell which queries ``[start, end)`` share a base with an interval of a set.

    Parameters
    ----------
    merged
        Intervals sorted by start, 0-based half-open.
    start, end
        Queries in any order, each int64, shape (n,), 0-based half-open.

    Returns
    -------
    ndarray
        bool, shape (n,).
    """
    found: Bools = first_met(merged, start, end) >= 0
    return found


def first_met(intervals: IntervalArray, start: Int64s, end: Int64s) -> Int64s:
    """Return the index of the first interval that shares a base with each query ``[start, end)``.

    Parameters
    ----------
    intervals
        Intervals sorted by start, 0-based half-open; they may overlap one another.
    start, end
        Queries in any order, each int64, shape (n,), 0-based half-open.

    Returns
    -------
    ndarray
        int64, shape (n,): index into ``intervals``; -1 if no interval overlaps the query or the query is empty.

    Notes
    -----
    The first interval that ends after the query's start overlaps the query, or no interval does, because later
    intervals start later.
    """
    index = np.searchsorted(np.maximum.accumulate(intervals.end), start, side="right")
    begins = np.append(intervals.start, np.iinfo(np.int64).max)[index]
    return np.where((begins < end) & (start < end), index, -1).astype(np.int64)
