"""Spans and keys of alleles, whole columns at a time.

Not here: which spans meet which intervals (``footprints``).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.genome import start_from_pos

Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]


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
