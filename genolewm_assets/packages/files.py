"""Write the Parquet files of a package with reproducible bytes, and measure them. Not here: damage (``damage``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.genome import Split
from genolewm_assets.packages.schema import PACKAGE_WINDOWS, window_shard
from genolewm_assets.progress import ByteCount
from genolewm_assets.store.artefacts import FileEntry
from genolewm_assets.store.files import FileDigests
from genolewm_assets.store.tables import TableSchema, cast_table, open_table_writer

#: Windows per file and per row group. A reader of random rows holds one row group, about 13 MB, in memory.
SHARD_ROWS = 32_768
GROUP_ROWS = 1_024
_TABLE_GROUP_ROWS = 65_536

# Columns whose values rarely repeat; a dictionary encoding would not make them smaller.
_DISTINCT = frozenset({"sequence", "left_flank", "right_flank", "window_hash", "window_id"})


class WindowShardWriter:
    """Writer of the windows of one split: files of nearly equal size, written one row group at a time.

    Parameters
    ----------
    n_rows
        Total number of rows; it decides the number of files and their names.

    Raises
    ------
    CorruptResourceError
        On leaving the context, if the number of rows written is not ``n_rows``.
    """

    def __init__(self, directory: Path, split: Split, n_rows: int) -> None:
        n_shards = max(1, -(-n_rows // SHARD_ROWS))
        base, larger = divmod(n_rows, n_shards)
        self._split, self._waiting = split, 0
        self._sizes = {window_shard(split, i, n_shards): base + (i < larger) for i in range(n_shards)}
        self._unopened = iter([directory / path for path in self._sizes])
        self._pending: list[pa.Table] = []
        self._open_next()

    @property
    def rows(self) -> dict[str, int]:
        """Number of rows of every file, by path relative to the package."""
        return dict(self._sizes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._writer.close()
        if kind is None and (self._left or self._waiting or next(self._unopened, None)):
            raise CorruptResourceError(
                f"data/{self._split}",
                "number of windows written differs from the number announced",
                expected=f"{sum(self._sizes.values())}",
                got=f"{self._left} fewer in the last file" if self._left else f"{self._waiting} more",
            )

    def write(self, table: pa.Table) -> None:
        """Append a table of schema ``PACKAGE_WINDOWS``; only full row groups are written at once."""
        self._pending.append(table)
        self._waiting += table.num_rows
        while self._left and self._waiting >= min(GROUP_ROWS, self._left):
            self._write_group()

    def _write_group(self) -> None:
        size, rows = min(GROUP_ROWS, self._left), pa.concat_tables(self._pending)
        self._writer.write_table(cast_table(rows.slice(0, size), PACKAGE_WINDOWS), GROUP_ROWS)
        self._pending, self._waiting = [rows.slice(size)], rows.num_rows - size
        self._left -= size
        if not self._left:
            self._writer.close()
            self._open_next()

    def _open_next(self) -> None:
        path = next(self._unopened, None)
        if path is not None:
            self._writer = _open(path, PACKAGE_WINDOWS)
            self._left = self._sizes[f"data/{path.name}"]


class PackageTableWriter(ExitStack):
    """Writer of one Parquet file with reproducible bytes; each table written begins a row group.

    Without rows the file has no row group, because Hugging Face datasets cannot read an empty row group.
    ``rows`` is the number of rows written so far.
    """

    def __init__(self, path: Path, schema: TableSchema) -> None:
        super().__init__()
        self._writer, self._schema, self.rows = self.enter_context(_open(path, schema)), schema, 0

    def write(self, table: pa.Table) -> None:
        """Append a table of the schema."""
        if table.num_rows:
            self._writer.write_table(cast_table(table, self._schema), _TABLE_GROUP_ROWS)
            self.rows += table.num_rows


def write_package_table(path: Path, tables: Iterable[pa.Table], schema: TableSchema) -> int:
    """Write tables one after another into one file, as :class:`PackageTableWriter`; return its number of rows."""
    with PackageTableWriter(path, schema) as writer:
        for table in tables:
            writer.write(table)
    return writer.rows


def _open(path: Path, schema: TableSchema) -> pq.ParquetWriter:
    path.parent.mkdir(parents=True, exist_ok=True)
    return open_table_writer(path, schema, dictionaries=[name for name in schema.columns if name not in _DISTINCT])


def measure_tables(digests: FileDigests, rows: Mapping[str, int | None], count: ByteCount) -> tuple[FileEntry, ...]:
    """Return size, SHA-256 and number of rows of every table file or array, sorted by path.

    ``rows`` are numbers by path relative to the package, None for an array; ``count`` is that of bytes hashed.
    """
    return tuple(FileEntry(path, *digests.of(path, count)[:2], rows[path]) for path in sorted(rows))
