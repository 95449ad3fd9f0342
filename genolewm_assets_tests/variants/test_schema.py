from __future__ import annotations

import pyarrow as pa
import pytest

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.lewm.windows.schema import TABLES as WINDOW_TABLES
from genolewm_assets.store.tables.schema import TableSchema
from genolewm_assets.variants.schema import ANCESTRY_GROUPS, CLINVAR_VARIANTS, GNOMAD_VARIANTS, REJECTS, TABLES

EVERY_TABLE = (*TABLES, *WINDOW_TABLES)


@pytest.mark.parametrize("table", EVERY_TABLE, ids=lambda table: table.name)
def test_every_column_says_what_it_holds(table: TableSchema) -> None:
    assert table.one_row_per
    for name in table.columns:
        text = table.describe(name)
        assert text == text.strip()
        assert len(text) > 3
        assert not text.endswith(".")


@pytest.mark.parametrize("table", EVERY_TABLE, ids=lambda table: table.name)
def test_keys_are_columns_without_nulls(table: TableSchema) -> None:
    assert set(table.key) <= set(table.columns)
    assert not any(table.arrow.field(name).nullable for name in table.key)


@pytest.mark.parametrize("table", EVERY_TABLE, ids=lambda table: table.name)
def test_column_names_do_not_repeat_and_the_empty_table_fits(table: TableSchema) -> None:
    assert len(set(table.columns)) == len(table.columns)
    assert table.empty().num_rows == 0
    table.check(table.empty().schema, where="here")


def test_names_of_tables_are_unique() -> None:
    assert len({table.name for table in EVERY_TABLE}) == len(EVERY_TABLE)


def test_group_columns_follow_the_groups() -> None:
    assert [f"af_{group}" for group in ANCESTRY_GROUPS] == [
        name for name in GNOMAD_VARIANTS.columns if name.startswith("af_") and name not in {"af_grpmax", "af_het"}
    ]


def test_alleles_are_keyed_alike_everywhere() -> None:
    assert GNOMAD_VARIANTS.key == CLINVAR_VARIANTS.key == ("chrom", "pos", "ref", "alt")


def other_schemas() -> list[tuple[pa.Schema, str]]:
    """Return schemas that are not that of rejects, and the column at fault."""
    right = REJECTS.arrow
    line = right.get_field_index("line")
    return [
        (right.remove(line), "line"),
        (right.append(pa.field("more", pa.int64())), "more"),
        (right.set(line, pa.field("line", pa.int32(), nullable=False)), "line"),
        (right.set(line, pa.field("line", pa.int64(), nullable=True)), "line"),
    ]


@pytest.mark.parametrize(("schema", "column"), other_schemas())
def test_another_schema_is_refused_and_named(schema: pa.Schema, column: str) -> None:
    with pytest.raises(CorruptResourceError, match=column) as caught:
        REJECTS.check(schema, where="rejects.parquet")
    assert "rejects.parquet: table does not have the schema 'rejects'" in str(caught.value)


def test_columns_out_of_order_are_refused() -> None:
    with pytest.raises(CorruptResourceError):
        REJECTS.check(pa.schema(list(REJECTS.arrow)[::-1]), where="rejects.parquet")


def test_descriptions_do_not_matter_to_a_reader() -> None:
    REJECTS.check(pa.schema([field.remove_metadata() for field in REJECTS.arrow]), where="rejects.parquet")
