"""Rows of a table that a check objects to."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from genolewm_assets.store.tables import rows_at_fault

TABLE = pa.table({"pos": list(range(100)), "ref": ["A", "C"] * 50, "detail": ["x"] * 100})


def mask(*rows: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    found = np.zeros(100, dtype=bool)
    found[list(rows)] = True
    return found


def test_a_row_names_all_its_faults_and_shows_the_asked_columns() -> None:
    faults = {"out_of_order": mask(3, 50), "repeated": mask(50)}
    assert rows_at_fault(TABLE, faults, ("pos", "ref")) == (
        {"pos": 3, "ref": "C", "fault": "out of order"},
        {"pos": 50, "ref": "A", "fault": "out of order; repeated"},
    )


def test_the_first_ten_are_shown_in_the_order_of_the_table() -> None:
    rows = rows_at_fault(TABLE, {"odd": mask(*range(1, 100, 2)), "last": mask(2)}, ("pos",))
    assert [row["pos"] for row in rows] == [1, 2, 3, 5, 7, 9, 11, 13, 15, 17]


def test_rows_of_a_slice_and_of_several_chunks_are_its_own() -> None:
    chunks = pa.concat_tables([TABLE.slice(0, 7), TABLE.slice(7)])
    assert chunks["pos"].num_chunks == 2
    rows = rows_at_fault(chunks.slice(5, 10), {"odd": mask(0, 4)[:10]}, ("pos",))
    assert [row["pos"] for row in rows] == [5, 9]


def test_no_fault_no_row() -> None:
    assert rows_at_fault(TABLE, {"odd": mask()}, ("pos",)) == rows_at_fault(TABLE.slice(0, 0), {}, ("pos",)) == ()
