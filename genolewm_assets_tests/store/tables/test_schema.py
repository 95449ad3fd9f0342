from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from genolewm_assets.store.tables.parquet import write_table
from genolewm_assets.store.tables.schema import TableSchema, check_schema, column, not_run
from genolewm_assets.variants.schema import REJECTS

ROW: dict[str, object] = {
    "file": "a.vcf",
    "line": 7,
    "chrom": "1",
    "pos": 3,
    "ref": "A",
    "alt": "N",
    "record_id": None,
    "reason": "iupac",
    "detail": None,
}


def test_a_table_as_declared_passes() -> None:
    result = check_schema(pa.Table.from_pylist([ROW, ROW], schema=REJECTS.arrow), REJECTS)
    assert result.passed
    assert result.figures == {"rows": 2, "forbidden_nulls": 0}
    assert check_schema(REJECTS.empty(), REJECTS).passed


def test_a_null_where_none_may_be_fails() -> None:
    result = check_schema(pa.Table.from_pylist([ROW, {**ROW, "alt": None}], schema=REJECTS.arrow), REJECTS)
    assert not result.passed
    assert result.figures["forbidden_nulls"] == 1


@pytest.mark.parametrize(
    "table",
    [
        REJECTS.empty().drop_columns(["detail"]),
        REJECTS.empty().append_column("more", pa.array([], pa.int64())),
        REJECTS.empty().select(REJECTS.columns[::-1]),
        pa.Table.from_pylist([ROW]),
    ],
)
def test_another_schema_fails_and_says_what_differs(table: pa.Table) -> None:
    result = check_schema(table, REJECTS)
    assert not result.passed
    assert "table does not have the schema 'rejects'" in str(result.figures["error"])


def test_a_check_that_was_not_run_did_not_pass() -> None:
    assert not not_run("labels_follow_clnsig").passed


def test_a_closed_set_is_described_and_changes_no_byte_of_a_file(tmp_path: Path) -> None:
    arrow = pa.schema([column("side", pa.string(), "side of the road"), column("role", pa.string(), "left or right")])
    values = ("left", "right")
    table = TableSchema("roads", "road", arrow, ("side",), closed={"side": values, "role": values})
    assert table.describe("side") == "side of the road; values: left or right"
    assert table.describe("role") == "left or right"
    rows = pa.Table.from_pylist([{"side": "left", "role": "right"}], schema=arrow)
    for name, schema in (("closed", table), ("open", TableSchema("roads", "road", arrow, ("side",)))):
        write_table([rows], tmp_path / name, schema, recipe={})
    assert (tmp_path / "closed").read_bytes() == (tmp_path / "open").read_bytes()


def test_a_closed_set_of_no_column_is_refused() -> None:
    arrow = pa.schema([column("side", pa.string(), "side of the road")])
    with pytest.raises(ValueError, match=r"roads: closed sets of unknown columns \['lane'\]"):
        TableSchema("roads", "road", arrow, ("side",), closed={"lane": ("left",)})
