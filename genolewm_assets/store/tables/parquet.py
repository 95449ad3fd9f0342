"""Write Parquet tables reproducibly, and read them in batches.

The bytes of a file depend only on its rows, schema and recipe.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.store.tables.ahead import map_ahead
from genolewm_assets.store.tables.schema import TableSchema

ROW_GROUP_ROWS = 65_536
#: Rows passed to the writer at a time: half a row group, so that fewer rows wait in memory during a write.
_PART_ROWS = ROW_GROUP_ROWS // 2
#: Number of first rows of a file from which the encodings of its columns are chosen.
_SAMPLE_ROWS = 4_096
#: Bytes of a column that are read at a time.
_BUFFER_BYTES = 1 << 20
#: Rows that are read at a time where single rows are wanted.
_READ_ROWS = 64


@contextmanager
def memory_given_back() -> Iterator[None]:
    """Let Arrow allocate from the C library inside the block, because Arrow's own allocator keeps freed memory.

    At the end, memory is given back as by :func:`give_memory_back`.
    """
    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        give_memory_back()
        pa.set_memory_pool(before)


def give_memory_back() -> None:
    """Let the C library return memory to the system that it keeps after it was freed (``malloc_trim``)."""
    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    # PyArrow (26.0) asks the default pool, whichever pool the method belongs to.
    pa.system_memory_pool().release_unused()
    pa.set_memory_pool(before)


@contextmanager
def reading_parquet(path: Path) -> Iterator[None]:
    """Convert an error inside the block about content that is no Parquet to a :class:`CorruptResourceError`."""
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as err:
        if isinstance(err, OSError) and err.errno is not None:  # of the file system; those of Arrow have no number
            raise
        problem = f"cannot be read as Parquet ({err})"
        raise CorruptResourceError(str(path), problem, remedy="Build it again, or copy it again") from err


def open_parquet(path: Path) -> pq.ParquetFile:
    """Open a Parquet file whose columns are read piece by piece; by default PyArrow reads and keeps whole columns."""
    return pq.ParquetFile(path, buffer_size=_BUFFER_BYTES, pre_buffer=False)


def read_table(
    path: Path, columns: Sequence[str] | None = None, filters: pc.Expression | list[tuple[str, str, str]] | None = None
) -> pa.Table:
    """Read columns of a Parquet file, and the rows that pass a filter; a damaged file is a CorruptResourceError."""
    with reading_parquet(path):
        chosen = None if columns is None else list(columns)
        return pq.read_table(path, columns=chosen, filters=filters, partitioning=None)


def read_encoded(path: Path, columns: Sequence[str], *, near: tuple[str, str] | None = None) -> pa.Table:
    """Read columns of a Parquet file, texts as dictionaries, which are read in half the time.

    With ``near``, a column and a text, only row groups that may have it there by their statistics are read, whole.
    """
    with reading_parquet(path), pq.ParquetFile(path, read_dictionary=columns) as file:
        groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
        chosen = [n for n, group in enumerate(groups) if near is None or _may_have(group, *near)]
        return file.read_row_groups(chosen, list(columns), use_threads=False)


def _may_have(group: pq.RowGroupMetaData, name: str, text: str) -> bool:
    columns = map(group.column, range(group.num_columns))
    stated = next(column.statistics for column in columns if column.path_in_schema == name)
    return stated is None or not stated.has_min_max or stated.min <= text <= stated.max


def write_table(
    tables: Iterable[pa.Table], path: Path, schema: TableSchema, *, recipe: Mapping[str, str] | None = None
) -> int:
    """Write tables in order to one Parquet file and return its number of rows; see :func:`write_tables`."""
    return write_tables([(path, tables)], schema, recipe=recipe)[path]


def write_tables(
    files: Iterable[tuple[Path, Iterable[pa.Table]]], schema: TableSchema, *, recipe: Mapping[str, str] | None = None
) -> dict[Path, int]:
    """Write Parquet files with zstd compression and row groups of ``ROW_GROUP_ROWS`` rows; return the rows of each.

    Parameters
    ----------
    files
        Pairs of a path and its tables, in the order of the rows in the file. An existing file is overwritten; the
        caller publishes it (:mod:`genolewm_assets.store`). Columns are selected and cast to ``schema``. All tables of
        one file are drawn before those of the next.
    recipe
        Written as key-value metadata under ``genolewm.<key>``; must not contain a time, host or path.

    Notes
    -----
    Equal rows give equal bytes, however they are divided into tables. The encoding of a column is chosen from the first
    rows of the file, see :func:`choose_encodings`. zstd level 1 takes less time than level 3; with it, files of ClinVar
    alleles have the same size and files of gnomAD alleles are 10 % larger. Row groups are written in another thread
    while the caller makes the next rows; at most 1.5 row groups are in memory.
    """
    recipe = recipe or {}
    rows: dict[Path, int] = {}
    with ExitStack() as stack:

        def parts() -> Iterator[tuple[_TableWriter, _Part]]:
            for path, tables in files:
                path.parent.mkdir(parents=True, exist_ok=True)
                rows[path] = 0
                writer = stack.enter_context(closing(_TableWriter(path, schema, recipe)))
                for part in _parts(tables, schema):
                    yield writer, part

        def write(item: tuple[_TableWriter, _Part]) -> tuple[Path, int]:
            writer, part = item
            return writer.path, writer.write(part)

        for path, written in map_ahead(write, parts(), threads=1, ahead=0):
            rows[path] += written
    return rows


def read_batches(path: Path, n_rows: int, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a Parquet file in order, at most ``n_rows`` at a time, without holding a whole row group."""
    with reading_parquet(path), open_parquet(path) as file:
        yield from file.iter_batches(n_rows, columns=None if columns is None else list(columns))


def read_rows(path: Path, rows: Sequence[int], columns: Sequence[str]) -> pa.Table:
    """Read rows of a Parquet file by their numbers, in the order given; only the row groups that hold one are read."""
    order = np.argsort(rows, kind="stable")
    wanted, found = np.asarray(rows, np.int64)[order], []
    with reading_parquet(path), open_parquet(path) as file:
        ends = np.cumsum([file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)])
        for group in np.unique(np.searchsorted(ends, wanted, side="right")).tolist():
            first = int(ends[group - 1]) if group else 0
            for batch in file.iter_batches(_READ_ROWS, row_groups=[group], columns=list(columns)):
                low, high = np.searchsorted(wanted, [first, first + batch.num_rows])
                if low < high:
                    found.append(batch.take(pa.array(wanted[low:high] - first)))
                first += batch.num_rows
        schema = pa.schema([file.schema_arrow.field(name) for name in columns])
    return pa.Table.from_batches(found, schema).take(pa.array(np.argsort(order)))


def open_table_writer(
    path: Path,
    schema: TableSchema,
    *,
    level: int = 3,
    dictionaries: bool | list[str] = True,
    encodings: Mapping[str, str] | None = None,
    recipe: Mapping[str, str] | None = None,
    page_rows: int | None = None,
) -> pq.ParquetWriter:
    """Open a Parquet writer with zstd compression and a page index; the caller publishes the file.

    Parameters
    ----------
    dictionaries
        Columns that are encoded with a dictionary; True for all.
    encodings
        Encodings of columns without a dictionary, by Parquet path; a column that is not named has PLAIN encoding.
    recipe
        Key-value metadata, see :func:`write_tables`.
    page_rows
        Rows after which a column's page is compared with its limit of 1 MiB, by default 1,024; fewer for long texts.
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
        write_batch_size=page_rows,
    )


class _Part(NamedTuple):
    """Columns of at most ``_PART_ROWS`` rows, in schema order; empty if the rows of the file are a multiple of that."""

    columns: list[pa.ChunkedArray]
    ends_group: bool
    ends_file: bool


class _TableWriter:
    """Writer of one file, opened with the first row group, which decides the encodings."""

    def __init__(self, path: Path, schema: TableSchema, recipe: Mapping[str, str]) -> None:
        self.path = path
        self._schema, self._recipe = schema, recipe
        self._waiting: list[list[pa.ChunkedArray]] = []
        self._writer: pq.ParquetWriter | None = None

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def write(self, part: _Part) -> int:
        """Add a part, emptying it, and return the number of rows written: 0 unless the part ends a row group."""
        if part.columns:
            self._waiting.append(part.columns)
        rows = self._write_group() if part.ends_group and self._waiting else 0
        if part.ends_file:
            (self._writer or self._opened(self._schema.empty())).close()
            self._writer = None
        return rows

    def _write_group(self) -> int:
        # Page borders depend on the chunks of a column; with one chunk, they depend on the rows alone.
        columns = [_concatenated(self._waiting, index) for index in range(len(self._schema.arrow))]
        self._waiting.clear()
        group = pa.table(columns, names=self._schema.columns).cast(self._schema.arrow)
        if self._writer is None:
            self._writer = self._opened(group)
        self._writer.write_table(group, ROW_GROUP_ROWS)
        return int(group.num_rows)

    def _opened(self, begin: pa.Table) -> pq.ParquetWriter:
        repetitive, encodings = choose_encodings(begin)
        return open_table_writer(
            self.path, self._schema, level=1, dictionaries=repetitive, encodings=encodings, recipe=self._recipe
        )


def _concatenated(parts: list[list[pa.ChunkedArray]], index: int) -> pa.Array:
    """Concatenate one column of all parts and drop it from them, so that only one column is in memory twice."""
    chunks = [chunk for part in parts for chunk in part[index].chunks if len(chunk)]
    for part in parts:
        part[index] = None
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)


def choose_encodings(table: pa.Table) -> tuple[list[str], dict[str, str]]:
    """Return the columns to encode with a dictionary, and the encodings of others that are not PLAIN, by Parquet path.

    A column gets a dictionary if at most half of its first 4,096 values are distinct. Other integer columns are written
    as differences (DELTA_BINARY_PACKED).
    """
    repetitive, encodings = [], {}
    for name in table.column_names:
        sample = table[name].slice(0, _SAMPLE_ROWS)
        column = sample.combine_chunks() if sample.num_chunks else pa.nulls(0, sample.type)
        for path, values in _leaves(name, column):
            if 2 * len(values.unique()) <= len(values):
                repetitive.append(path)
            elif pa.types.is_integer(values.type):
                encodings[path] = "DELTA_BINARY_PACKED"
    return repetitive, encodings


def _leaves(path: str, column: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """Yield the values inside lists and structs, each with its Parquet path."""
    if pa.types.is_list(column.type):
        yield from _leaves(f"{path}.list.element", column.flatten())
    elif pa.types.is_struct(column.type):
        for field, values in zip(column.type, column.flatten(), strict=True):
            yield from _leaves(f"{path}.{field.name}", values)
    else:
        yield path, column


def cast_table(table: pa.Table, schema: TableSchema) -> pa.Table:
    """Select the columns of a schema and cast them to its types and nullability."""
    return table.select(schema.columns).cast(schema.arrow)


def _parts(tables: Iterable[pa.Table], schema: TableSchema) -> Iterator[_Part]:
    """Yield the rows in parts of ``_PART_ROWS``, the last one smaller or empty; the consumer may empty them."""
    waiting: list[pa.Table] = []
    rows, ends_group = 0, False
    for table in tables:
        fitting = table.select(schema.columns)
        if fitting.schema.types != schema.arrow.types:
            fitting = cast_table(table, schema)
        # Field metadata and nullability may differ here; nulls are checked when the group is written.
        waiting.append(pa.table(fitting.columns, names=schema.columns))
        rows += table.num_rows
        # These names would keep rows in memory that the consumer has already written.
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
