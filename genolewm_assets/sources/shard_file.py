"""Tables of a shard: rows gathered per contig without filling memory, and Parquet files of reproducible bytes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

from genolewm_assets.lewm.schema import TableSchema

#: The table of a shard that is one file, and the table of what it does not hold.
VARIANTS_FILE = "variants.parquet"
REJECTS_FILE = "rejects.parquet"

ROW_GROUP_ROWS = 65_536
_FLUSH_ROWS = 32_768


@dataclass(frozen=True, slots=True)
class ShardReport:
    """What a build wrote: ``counts`` of alleles by fate, ``rows`` per file name."""

    counts: Mapping[str, int]
    rows: Mapping[str, int]


class RowSpool:
    """Rows appended in any order, given back as one table per contig.

    Parameters
    ----------
    schema
        Arrow schema of the rows; a row is a tuple in its order.
    folder
        Where rows wait once there are many; what lies there is removed on exit.
    """

    def __init__(self, schema: pa.Schema, folder: Path) -> None:
        self.schema = schema
        self._rows: dict[str, list[tuple[object, ...]]] = {}
        self._writers: dict[str, pa.RecordBatchFileWriter] = {}
        self._paths: dict[str, Path] = {}
        self._parent = folder
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for writer in self._writers.values():
            writer.close()
        if self._folder is not None:
            self._folder.cleanup()

    def append(self, contig: str, row: tuple[object, ...]) -> None:
        """Add one row of a contig."""
        rows = self._rows.setdefault(contig, [])
        rows.append(row)
        if len(rows) >= _FLUSH_ROWS:
            self._flush(contig)

    def take(self, contig: str) -> pa.Table:
        """Return the rows of a contig in the order they came, and forget them."""
        rows = self._rows.pop(contig, [])
        batches = [self._batch(rows)] if rows else []
        writer = self._writers.pop(contig, None)
        if writer is not None:
            writer.close()
            path = self._paths.pop(contig)
            with pa.OSFile(str(path)) as source:
                batches = [*pa.ipc.open_file(source).read_all().to_batches(), *batches]
            path.unlink()
        return pa.Table.from_batches(batches, schema=self.schema)

    def _flush(self, contig: str) -> None:
        if self._folder is None:
            self._parent.mkdir(parents=True, exist_ok=True)
            self._folder = tempfile.TemporaryDirectory(prefix=".spool-", dir=self._parent)
        if contig not in self._writers:
            # Numbered, because a contig's name need not be a file name (HLA-A*01:01).
            path = self._paths.setdefault(contig, Path(self._folder.name) / f"{len(self._paths)}.arrow")
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            self._writers[contig] = pa.ipc.new_file(str(path), self.schema, options=options)
        self._writers[contig].write_batch(self._batch(self._rows.pop(contig)))

    def _batch(self, rows: list[tuple[object, ...]]) -> pa.RecordBatch:
        columns = zip(*rows, strict=True)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, self.schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def write_shard_file(
    tables: Iterable[pa.Table], path: Path, schema: TableSchema, *, recipe: Mapping[str, str] | None = None
) -> int:
    """Write tables one after another into one Parquet file.

    Parameters
    ----------
    tables
        Each in the order it shall have in the file; columns are selected and cast to ``schema``.
    path
        Overwritten; the caller publishes it (:mod:`genolewm_assets.store`).
    recipe
        Kept as key-value metadata under ``genolewm.<key>``; may hold no time, host or path, so that the same rows
        always give the same bytes.

    Returns
    -------
    int
        Rows written.
    """
    extra = {f"genolewm.{key}": value for key, value in sorted((recipe or {}).items())}
    arrow = schema.arrow.with_metadata({"genolewm.table": schema.name, **extra})
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = 0
    with pq.ParquetWriter(
        path, arrow, compression="zstd", compression_level=3, write_statistics=True, write_page_index=True
    ) as writer:
        for table in tables:
            writer.write_table(cast_table(table, schema).replace_schema_metadata(arrow.metadata), ROW_GROUP_ROWS)
            rows += table.num_rows
    return rows


def cast_table(table: pa.Table, schema: TableSchema) -> pa.Table:
    """Return a table with exactly the columns, types and nullability of a schema."""
    return table.select(schema.columns).cast(schema.arrow)
