"""Rows of a table that a check objects to, by one mask per fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from genolewm_assets.store.artefacts import SHOWN_ROWS, Row


def rows_at_fault(
    table: pa.Table, faults: Mapping[str, npt.NDArray[np.bool_]], columns: Sequence[str]
) -> tuple[Row, ...]:
    """Return the first ten rows that have a fault, with a column ``fault`` that names all faults of the row.

    Parameters
    ----------
    faults
        bool, shape (rows,), by name of the fault: whether a row has it.
    columns
        Columns of the table that are shown.
    """
    wrong = np.logical_or.reduce([np.zeros(table.num_rows, dtype=bool), *faults.values()])
    at = np.flatnonzero(wrong)[:SHOWN_ROWS]
    # Rows one by one: `take` would copy whole columns.
    shown = (table.select(list(columns)).slice(row, 1).to_pylist()[0] for row in at.tolist())
    named = ("; ".join(name.replace("_", " ") for name, mask in faults.items() if mask[row]) for row in at.tolist())
    return tuple({**row, "fault": fault} for row, fault in zip(shown, named, strict=True))
