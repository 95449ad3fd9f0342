"""Where alleles and windows stand on a contig, whole columns at a time, and whether they meet a set of stretches.

Not here: the arrays of intervals (``genome.intervals``), what is held out (``holdouts``).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.genome import IntervalArray, start_from_pos

Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]

NO_INTERVALS = IntervalArray(np.zeros(0, np.int64), np.zeros(0, np.int64))


def allele_spans(table: pa.Table) -> tuple[Int64s, Int64s]:
    """Return start and end, 0-based half-open, of the reference bases of each allele: int64, shape (n_rows,)."""
    start = start_from_pos(table["pos"].to_numpy().astype(np.int64))
    return start, start + pc.binary_length(table["ref"]).to_numpy().astype(np.int64)


def allele_keys(table: pa.Table) -> pa.Array:
    """Return one text per allele, equal exactly for equal alleles: string, shape (n_rows,)."""
    return join_columns(table["chrom"], pc.cast(table["pos"], pa.string()), table["ref"], table["alt"])


def join_columns(*columns: pa.ChunkedArray) -> pa.Array:
    """Return one text per row, made of its values with tabs between."""
    joined = pc.binary_join_element_wise(*columns, "\t")
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined


def as_bools(column: pa.ChunkedArray | pa.Array) -> Bools:
    """Return a boolean column as an array: bool, shape (n_rows,); a null counts as false."""
    return np.asarray(pc.fill_null(column, fill_value=False).to_numpy(zero_copy_only=False), dtype=bool)


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
