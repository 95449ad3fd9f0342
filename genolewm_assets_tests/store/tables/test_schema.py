from __future__ import annotations

import pyarrow as pa
import pytest

from genolewm_assets.store.tables.schema import check_schema, not_run
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
