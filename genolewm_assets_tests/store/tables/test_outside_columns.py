from __future__ import annotations

import pyarrow as pa

from genolewm_assets.store.tables.outside_columns import Unreadable, Wanted, column_faults, read_column
from genolewm_assets_tests.rows import each_row

WHOLE, LABEL, TEXT = Wanted.WHOLE, Wanted.LABEL, Wanted.TEXT
NAN, HUGE = float("nan"), 2**64 - 1


@each_row(
    "column, wanted, values",
    [
        (pa.array([1, None, -3], pa.int8()), WHOLE, [1, None, -3]),
        (pa.array([1, HUGE], pa.uint64()), WHOLE, [1, Unreadable(str(HUGE))]),
        (pa.array([1.0, None, NAN, 2.5]), WHOLE, [1, None, None, Unreadable("2.5")]),
        (pa.array([1e300, float("inf")]), WHOLE, [Unreadable("1e+300"), Unreadable("inf")]),
        (pa.array([2.0], pa.float16()), WHOLE, [2]),
        (pa.array(["7", " 12 ", "", None, "-5"]), WHOLE, [7, 12, None, None, -5]),
        (pa.array(["1,2", "1.0", "9" * 19, "x"]), WHOLE, [*map(Unreadable, ("1,2", "1.0", "9" * 19, "x"))]),
        (pa.array(["3"], pa.string_view()), WHOLE, [3]),
        (pa.array(["3", "4", "3"], pa.large_string()).dictionary_encode(), WHOLE, [3, 4, 3]),
        (pa.nulls(2), WHOLE, [None, None]),
        (pa.array([9606, None]), LABEL, ["9606", None]),
        (pa.array([9606.0, None, 0.5]), LABEL, ["9606", None, Unreadable("0.5")]),
        (pa.array(["1.5", "", None]), LABEL, ["1.5", "", None]),
        (pa.array(["a", None]).dictionary_encode(), TEXT, ["a", None]),
        (pa.nulls(1), TEXT, [None]),
        (pa.array([0, 1.0, 2.5, 3]).slice(1, 2), WHOLE, [1, Unreadable("2.5")]),
    ],
)
def test_a_column_is_read_of_each_type_that_is_written(column: pa.Array, wanted: Wanted, values: list[object]) -> None:
    read = read_column(column, wanted)
    assert read == values
    assert [type(value) for value in read] == [type(value) for value in values]


@each_row(
    "kind, wanted",
    [
        *((kind, WHOLE) for kind in (pa.bool_(), pa.list_(pa.int64()), pa.date32(), pa.decimal128(9, 0))),
        *((kind, LABEL) for kind in (pa.bool_(), pa.binary(), pa.dictionary(pa.int8(), pa.date32()))),
        (pa.struct([("start", pa.int64())]), WHOLE),
        (pa.int64(), TEXT),
    ],
)
def test_another_type_is_an_error_that_names_place_column_type_and_remedy(kind: pa.DataType, wanted: Wanted) -> None:
    (fault,) = column_faults(pa.schema([("start", kind), ("other", pa.binary())]), {"start": wanted}, where="a.parquet")
    assert str(fault) == (
        f"a.parquet: column 'start' has another type: expected {wanted}, got {kind}. "
        "Write the column with the expected type, or leave it out."
    )


def test_a_misspelt_and_a_repeated_column_are_errors() -> None:
    schema = pa.schema([("Start", pa.float64()), ("end", pa.int64()), ("end", pa.int64())])
    near, twice = map(str, column_faults(schema, {"start": WHOLE, "end": WHOLE}, where="a.parquet"))
    assert near == (
        f"a.parquet: column 'Start' (double) has nearly the name of another: expected 'start' ({WHOLE}), or no such "
        "column, got 'Start'. Rename it to 'start', or, if it is something else, to what it is."
    )
    assert twice == "a.parquet: column 'end' is there 2 times: expected once."
