"""Rows of a table that a check objects to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.store.tables import rows_at_fault
from genolewm_assets.store.tables.columns import list_column, number_column, numbers_of, repeated_text, text_column
from genolewm_assets.store.tables.parquet import write_table
from genolewm_assets.store.tables.schema import TableSchema, check_schema, column
from genolewm_assets.variants.schema import REJECTS
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.sources import clinvar_records
from genolewm_assets_tests.worlds.sources.vcf_files import vcf_text, write_text

ROW = {"file": "a.vcf", "line": 7, "chrom": "1", "pos": 3, "ref": "A", "alt": "N", "reason": "iupac"}


@each_row("rows, nulls", [([], 0), ([ROW, ROW], 0), ([ROW, {**ROW, "alt": None}], 1)])
def test_a_table_as_declared_passes_and_a_null_where_none_may_be_fails(rows: list[object], nulls: int) -> None:
    result = check_schema(pa.Table.from_pylist(rows, schema=REJECTS.arrow), REJECTS)
    assert result.passed is (nulls == 0)
    assert result.figures == {"rows": len(rows), "forbidden_nulls": nulls}


@each_row(
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


TEXTS = st.lists(st.none() | st.text(max_size=5), max_size=20)
SCRIPT = """
import sys
from pathlib import Path
from genolewm_assets.genome import Contig, ContigSet
from genolewm_assets.sources.clinvar.shard import build_clinvar_shard
vcf, bases, out = sys.argv[1:]
contigs = ContigSet([Contig("chr17", len(bases), aliases=("17",)), Contig("chrM", len(bases), aliases=("MT",))])
report = build_clinvar_shard(
    Path(vcf), release="r", contigs=contigs, reference=lambda _: bases.encode(), out_dir=Path(out)
)
print(report.counts["kept"], report.counts["rejected"], *sorted({"pandas", "aiohttp"} & set(sys.modules)))
"""


@given(numbers=st.lists(st.integers(-(2**62), 2**62), max_size=20), data=st.data())
def test_numbers(numbers: list[int], data: st.DataObject) -> None:
    for kind in (np.int64, np.int8, np.bool_):
        values = np.array(numbers, np.int64).astype(kind)
        there = np.array(data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values))), np.bool_)
        assert number_column(values).equals(pa.array(values))
        column = number_column(values, there)
        column.validate(full=True)
        assert column.equals(pa.array(values, mask=~there))
    column = number_column(np.array(numbers, np.int64))
    for part in (column, column.slice(1), column.slice(2, 3)):
        assert numbers_of(part).tolist() == part.to_pylist()
        assert not numbers_of(part).flags.writeable or not len(part)


@given(lists=st.lists(st.none() | TEXTS, max_size=10))
def test_texts_and_lists(lists: list[list[str | None] | None]) -> None:
    texts = [text for each in lists for text in each or ()]
    assert text_column(texts).equals(pa.array(texts, pa.string()))
    column = list_column(lists, text_column(texts))
    column.validate(full=True)
    assert column.equals(pa.array(lists, pa.list_(pa.string())))


def test_repeated_text() -> None:
    assert repeated_text("chr1", 3).to_pylist() == ["chr1"] * 3
    assert repeated_text("chr1", 0).type == pa.string()


@pytest.mark.parametrize("chrom", ["17", "MT"])
def test_a_build_from_a_local_file_imports_neither_pandas_nor_http(tmp_path: Path, chrom: str) -> None:
    more = ";GENEINFO=A:1|B:2;RS=5;CLNREVSTAT=reviewed_by_expert_panel"
    records = [
        # A contig out of its turn: the rows of both are spooled.
        clinvar_records.record(chrom=chrom, alt="T", name=7),
        clinvar_records.record(pos=8, ref="TT", alt="T", more=more),
        clinvar_records.record(pos=7, ref="TT", alt="T", name=8),
        clinvar_records.record(pos=3, ref="A", name=9),
        clinvar_records.record(pos=3, alt="A,C", name=10),
    ]
    vcf = write_text(tmp_path / "in.vcf", vcf_text(records, info=[*clinvar_records.INFO, "RS:.:String"]))
    arguments = [sys.executable, "-c", SCRIPT, str(vcf), clinvar_records.SEQUENCE.decode(), str(tmp_path / "out")]
    told = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout
    assert told.split() == ["4", "2"]


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
    assert rows_at_fault(TABLE, {"odd": mask()}, ("pos",)) == rows_at_fault(TABLE.slice(0, 0), {}, ("pos",)) == ()
