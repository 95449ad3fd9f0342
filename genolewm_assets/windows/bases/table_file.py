"""Write a table of windows with their texts."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa

from genolewm_assets.store.tables import TableSchema, open_table_writer

#: Rows of a row group: 100 MB of text in windows of 12 kb.
GROUP_ROWS = 8_192
#: Rows that are written at a time: a page of texts has about 1 MB.
_PAGE_ROWS = 64
#: Columns of few different values.
_REPETITIVE = [
    *("source", "record_id", "placement_how", "placed_contig", "strand", "stated_contig", "taxonomy", "note"),
    *("contig", "reason"),
]


def write_window_table(path: Path, schema: TableSchema, tables: Iterable[pa.Table]) -> int:
    """Write tables in row groups of :data:`GROUP_ROWS`, and return the number of rows; one group is in memory."""
    with _Groups(path, schema) as groups:
        for table in tables:
            groups.add(table)
    return groups.rows


class _Groups:
    """Parquet file whose rows wait until they fill a row group."""

    def __init__(self, path: Path, schema: TableSchema) -> None:
        dictionaries = [name for name in _REPETITIVE if name in schema.columns]
        self._writer = open_table_writer(path, schema, level=1, dictionaries=dictionaries, page_rows=_PAGE_ROWS)
        self._waiting = schema.empty()
        self.rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with closing(self._writer):
            if kind is None and self._waiting.num_rows:
                self._writer.write_table(self._waiting)

    def add(self, table: pa.Table) -> None:
        """Add rows; write a row group if there are enough."""
        self._waiting = pa.concat_tables([self._waiting, table])
        self.rows += table.num_rows
        while self._waiting.num_rows >= GROUP_ROWS:
            self._writer.write_table(self._waiting.slice(0, GROUP_ROWS), GROUP_ROWS)
            self._waiting = self._waiting.slice(GROUP_ROWS)
