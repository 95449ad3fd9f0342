"""Reference spans and text keys of alleles, column-wise.

Not here: overlap of spans with intervals (:mod:`genolewm_assets.holdouts`).
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
    """Return start and end of each allele's REF, 0-based half-open: two int64 arrays of shape (n_rows,)."""
    start = start_from_pos(table["pos"].to_numpy().astype(np.int64))
    return start, start + pc.binary_length(table["ref"]).to_numpy().astype(np.int64)


def allele_keys(table: pa.Table) -> pa.Array:
    """Return chrom, pos, ref and alt of each allele as one tab-separated text: string, shape (n_rows,)."""
    return join_columns(table["chrom"], pc.cast(table["pos"], pa.string()), table["ref"], table["alt"])


def join_columns(*columns: pa.ChunkedArray) -> pa.Array:
    """Join string columns row by row with tabs: string, shape (n_rows,); a null in a row gives null."""
    joined = pc.binary_join_element_wise(*columns, "\t")
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined


def as_bools(column: pa.ChunkedArray | pa.Array) -> Bools:
    """Return a boolean column as an array: bool, shape (n_rows,); a null counts as false."""
    return np.asarray(pc.fill_null(column, fill_value=False).to_numpy(zero_copy_only=False), dtype=bool)
