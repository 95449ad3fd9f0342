from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.store.tables import map_parquet, mapped_table
from genolewm_assets.store.tables import mapped as module


@pytest.mark.parametrize("most_bytes", [0, 1 << 20, 64 << 20])
def test_a_mapped_table_takes_no_memory_of_arrow_beyond_a_limit_and_no_file_with_a_name(
    tmp_path, monkeypatch, most_bytes
):
    monkeypatch.setattr(module, "_MOST_BYTES", most_bytes)
    table = pa.table({"text": [f"a text that is long enough {row}" for row in range(100_000)], "n": range(100_000)})
    before = pa.total_allocated_bytes()
    # Each batch is a copy, as one that is made just now.
    copies = (table.slice(at, 1_000).take(pa.array(range(1_000))) for at in range(0, 100_000, 1_000))
    mapped = mapped_table(copies, table.schema, tmp_path)
    taken = pa.total_allocated_bytes() - before
    assert mapped.equals(table)
    assert (taken > table.nbytes / 2) if most_bytes > table.nbytes else (taken < table.nbytes / 100)
    assert list(Path(tmp_path).iterdir()) == []
    kept = mapped["text"].slice(70_000, 2)
    del mapped
    assert kept.to_pylist() == table["text"][70_000:70_002].to_pylist()


def test_no_rows_make_a_table():
    schema = pa.schema([pa.field("text", pa.string(), nullable=False)])
    assert mapped_table([], schema).equals(schema.empty_table())


def test_parquet_is_mapped_with_its_schema(tmp_path):
    schema = pa.schema([pa.field("text", pa.string(), nullable=False, metadata={"description": "a text"})])
    for table in (schema.empty_table(), pa.table({"text": [str(row) for row in range(70_000)]}, schema=schema)):
        pq.write_table(table, tmp_path / "rows.parquet", row_group_size=50_000)
        mapped = map_parquet(tmp_path / "rows.parquet")
        assert mapped.equals(table)
        assert mapped.schema.equals(pq.read_schema(tmp_path / "rows.parquet"), check_metadata=True)
    os.truncate(tmp_path / "rows.parquet", 1_000)
    with pytest.raises(CorruptResourceError, match="cannot be read as Parquet"):
        map_parquet(tmp_path / "rows.parquet")
