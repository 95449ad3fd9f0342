"""Tables and files of tables with other values, as a fault may have left them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Rows = list[dict[str, Any]]
Edit = Callable[[Rows], Rows | None]


def with_value(table: pa.Table, column: str, row: int, value: object) -> pa.Table:
    values = table[column].to_pylist()
    values[row] = value
    field = table.schema.field(column)
    return table.set_column(table.schema.get_field_index(column), field, pa.array(values, field.type))


def change_rows(path: Path, edit: Edit) -> None:
    """Write a file again with what ``edit`` returns or, where that is None, has changed in place; nulls are allowed."""
    table = pq.read_table(path, partitioning=None)
    rows = table.to_pylist()
    changed = edit(rows)
    schema = pa.schema([field.with_nullable(True) for field in table.schema])
    pq.write_table(pa.Table.from_pylist(rows if changed is None else changed, schema=schema), path)
