"""Write a table of windows with their texts."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

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
    dictionaries, waiting, rows = [name for name in _REPETITIVE if name in schema.columns], schema.empty(), 0
    with closing(open_table_writer(path, schema, level=1, dictionaries=dictionaries, page_rows=_PAGE_ROWS)) as writer:
        for table in tables:
            waiting, rows = pa.concat_tables([waiting, table]), rows + table.num_rows
            while waiting.num_rows >= GROUP_ROWS:
                writer.write_table(waiting.slice(0, GROUP_ROWS), GROUP_ROWS)
                waiting = waiting.slice(GROUP_ROWS)
        if waiting.num_rows:
            writer.write_table(waiting)
    return rows
