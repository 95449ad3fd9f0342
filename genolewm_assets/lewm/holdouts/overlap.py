"""Whether spans of a contig meet a set of stretches, whole columns at a time.

Not here: the arrays of intervals (``genome.intervals``), spans of alleles (``spans``), what is held out (``holdouts``).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.genome import IntervalArray
from genolewm_assets.variants import Bools, Int64s

NO_INTERVALS = IntervalArray(np.zeros(0, np.int64), np.zeros(0, np.int64))


def merge_stretches(table: pa.Table) -> dict[str, IntervalArray]:
    """Return the union of the rows' stretches by contig; from the columns contig, start, end."""
    merged: dict[str, IntervalArray] = {}
    for contig in pc.unique(table["contig"]).to_pylist():
        rows = table.filter(pc.equal(table["contig"], contig))
        merged[contig] = IntervalArray.from_unsorted(rows["start"].to_numpy(), rows["end"].to_numpy()).merge()
    return merged


def meets(merged: IntervalArray, start: Int64s, end: Int64s) -> Bools:
    """Tell which stretches ``[start, end)``, in any order, share a base with one of some intervals.

    Returns
    -------
    ndarray
        bool, shape (len(start),).
    """
    found: Bools = first_met(merged, start, end) >= 0
    return found


def first_met(intervals: IntervalArray, start: Int64s, end: Int64s) -> Int64s:
    """Return the index of the first interval that shares a base with each stretch ``[start, end)``, in any order.

    Returns
    -------
    ndarray
        int64, shape (len(start),); -1 for none.

    Notes
    -----
    The first interval that ends behind a stretch's start meets it, or else none does: later ones start later still.
    """
    index = np.searchsorted(np.maximum.accumulate(intervals.end), start, side="right")
    begins = np.append(intervals.start, np.iinfo(np.int64).max)[index]
    return np.where((begins < end) & (start < end), index, -1).astype(np.int64)
