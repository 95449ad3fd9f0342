"""The writer of Parquet tables: files whose bytes follow from their rows.

Not here: one file for others, whole or not at all (``table_file``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import pyarrow as pa
import pyarrow.parquet as pq

from genolewm_assets.store.tables.ahead import map_ahead
from genolewm_assets.store.tables.schema import TableSchema

ROW_GROUP_ROWS = 65_536
#: Rows that are handed to the writer at a time: half a row group, so that less of the next one waits while it writes.
_PART_ROWS = ROW_GROUP_ROWS // 2
#: Rows at the file's begin by which a column's encoding is chosen.
_SAMPLE_ROWS = 4_096


@contextmanager
def memory_given_back() -> Iterator[None]:
    """Let Arrow allocate from the C library meanwhile: its own allocator keeps what was freed, and a build is long.

    At the end the C library, too, gives back what lies free between what is in use (``malloc_trim``).
    """
    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.system_memory_pool().release_unused()
        pa.set_memory_pool(before)


def write_table(
    tables: Iterable[pa.Table], path: Path, schema: TableSchema, *, recipe: Mapping[str, str] | None = None
) -> int:
    """Write tables one after another into one Parquet file and return its rows; see :func:`write_tables`."""
    return write_tables([(path, tables)], schema, recipe=recipe)[path]


def write_tables(
    files: Iterable[tuple[Path, Iterable[pa.Table]]], schema: TableSchema, *, recipe: Mapping[str, str] | None = None
) -> dict[Path, int]:
    """Write Parquet files: zstd, row groups of ``ROW_GROUP_ROWS``.

    Parameters
    ----------
    files
        Path, overwritten (the caller publishes it: :mod:`genolewm_assets.store`), and tables, each in the order it
        shall have in the file; columns are selected and cast to ``schema``. The tables of a file are drawn to their
        end before those of the next.
    recipe
        Kept as key-value metadata under ``genolewm.<key>``; may hold no time, host or path.

    Returns
    -------
    dict
        Rows of each file.

    Notes
    -----
    The same rows always give the same bytes, however the tables are cut. How a column is encoded follows from the
    rows at the file's begin, see :func:`choose_encodings`. zstd at level 1 takes less time than at level 3;
    ClinVar-like tables come out as small, gnomAD-like ones a tenth larger. Row groups are written in another thread
    while the next rows are made, of the same file or the next; at most one and a half are in memory.
    """
    recipe = recipe or {}
    rows: dict[Path, int] = {}
    with ExitStack() as stack:

        def parts() -> Iterator[tuple[_TableWriter, _Part]]:
            for path, tables in files:
                path.parent.mkdir(parents=True, exist_ok=True)
                rows[path] = 0
                writer = stack.enter_context(_TableWriter(path, schema, recipe))
                for part in _parts(tables, schema):
                    yield writer, part

        def write(item: tuple[_TableWriter, _Part]) -> tuple[Path, int]:
            writer, part = item
            return writer.path, writer.write(part)

        for path, written in map_ahead(write, parts(), threads=1, ahead=0):
            rows[path] += written
    return rows


def open_table(
    path: Path,
    schema: TableSchema,
    *,
    level: int = 3,
    dictionaries: bool | list[str] = True,
    encodings: Mapping[str, str] | None = None,
    recipe: Mapping[str, str] | None = None,
) -> pq.ParquetWriter:
    """Open a Parquet file for row groups as they come, zstd with a page index; the caller publishes it.

    Parameters
    ----------
    dictionaries
        Columns that are encoded with a dictionary; True: all.
    encodings
        Of columns without one, where they are not plain.
    recipe
        Key-value metadata, see :func:`write_tables`.
    """
    extra = {f"genolewm.{key}": value for key, value in sorted((recipe or {}).items())}
    return pq.ParquetWriter(
        path,
        schema.arrow.with_metadata({"genolewm.table": schema.name, **extra}),
        compression="zstd",
        compression_level=level,
        use_dictionary=dictionaries,
        column_encoding=encodings,
        write_page_index=True,
    )


class _Part(NamedTuple):
    """Columns of at most ``_PART_ROWS`` rows, in the order of the schema; none where a file ends at a border."""

    columns: list[pa.ChunkedArray]
    ends_group: bool
    ends_file: bool


class _TableWriter:
    """Writes one file; its first row group decides the encodings, so that it is opened with that."""

    def __init__(self, path: Path, schema: TableSchema, recipe: Mapping[str, str]) -> None:
        self.path = path
        self._schema, self._recipe = schema, recipe
        self._waiting: list[list[pa.ChunkedArray]] = []
        self._writer: pq.ParquetWriter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.close()

    def write(self, part: _Part) -> int:
        """Take a part, emptying it, and return how many rows were written: those of a row group at its end."""
        if part.columns:
            self._waiting.append(part.columns)
        rows = self._write_group() if part.ends_group and self._waiting else 0
        if part.ends_file:
            (self._writer or self._opened(self._schema.empty())).close()
            self._writer = None
        return rows

    def _write_group(self) -> int:
        # The writer ends its pages by the pieces it is given: of columns in one piece, pages depend on the rows alone.
        columns = [_in_one_piece(self._waiting, index) for index in range(len(self._schema.arrow))]
        self._waiting.clear()
        group = pa.table(columns, names=self._schema.columns).cast(self._schema.arrow)
        if self._writer is None:
            self._writer = self._opened(group)
        self._writer.write_table(group, ROW_GROUP_ROWS)
        return int(group.num_rows)

    def _opened(self, begin: pa.Table) -> pq.ParquetWriter:
        repetitive, encodings = choose_encodings(begin)
        return open_table(
            self.path, self._schema, level=1, dictionaries=repetitive, encodings=encodings, recipe=self._recipe
        )


def _in_one_piece(parts: list[list[pa.ChunkedArray]], index: int) -> pa.Array:
    """Return a column of all parts, which forget it: one column at a time is in memory twice."""
    chunks = [chunk for part in parts for chunk in part[index].chunks if len(chunk)]
    for part in parts:
        part[index] = None
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)


def choose_encodings(table: pa.Table) -> tuple[list[str], dict[str, str]]:
    """Return which columns to encode with a dictionary, and the encodings of others that are not plain.

    A dictionary pays where at most half of the first 4,096 values are distinct; elsewhere it only costs time. Integers
    without one are written as differences. Columns are named by their path in Parquet.
    """
    repetitive, encodings = [], {}
    for name in table.column_names:
        sample = table[name].slice(0, _SAMPLE_ROWS)
        path, column = name, sample.combine_chunks() if sample.num_chunks else pa.nulls(0, sample.type)
        while pa.types.is_list(column.type):
            path, column = f"{path}.list.element", column.flatten()
        if 2 * len(column.unique()) <= len(column):
            repetitive.append(path)
        elif pa.types.is_integer(column.type):
            encodings[path] = "DELTA_BINARY_PACKED"
    return repetitive, encodings


def cast_table(table: pa.Table, schema: TableSchema) -> pa.Table:
    """Return a table with exactly the columns, types and nullability of a schema."""
    return table.select(schema.columns).cast(schema.arrow)


def _parts(tables: Iterable[pa.Table], schema: TableSchema) -> Iterator[_Part]:
    """Yield the rows in parts of ``_PART_ROWS``, the last one smaller or empty; the taker may empty them."""
    waiting: list[pa.Table] = []
    rows, ends_group = 0, False
    for table in tables:
        fitting = table.select(schema.columns)
        if fitting.schema.types != schema.arrow.types:
            fitting = cast_table(table, schema)
        # What fields say beside their type may differ; rows are checked for nulls where they are written.
        waiting.append(pa.table(fitting.columns, names=schema.columns))
        rows += table.num_rows
        # Nothing here may keep in memory what the taker has done with.
        del table, fitting
        while rows >= _PART_ROWS:
            together = pa.concat_tables(waiting)
            columns, waiting = together.slice(0, _PART_ROWS).columns, [together.slice(_PART_ROWS)]
            rows -= _PART_ROWS
            del together
            yield _Part(columns, ends_group, ends_file=False)
            ends_group = not ends_group
    columns = pa.concat_tables(waiting).columns if rows else []
    waiting.clear()
    yield _Part(columns, ends_group=True, ends_file=True)
