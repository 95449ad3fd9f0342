"""Tables of a shard: Parquet files whose bytes follow from their rows."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from genolewm_assets.lewm.schema import TableSchema
from genolewm_assets.sources.text_chunks import map_ahead
from genolewm_assets.store.manifest import InputRef, JsonValue

#: The table of a shard that is one file, and the table of what it does not hold.
VARIANTS_FILE = "variants.parquet"
REJECTS_FILE = "rejects.parquet"

ROW_GROUP_ROWS = 65_536
#: Rows at the file's begin by which a column's encoding is chosen.
_SAMPLE_ROWS = 4_096


@dataclass(frozen=True, slots=True)
class ShardReport:
    """What a build wrote.

    Attributes
    ----------
    counts
        Alleles by fate, as the builder counted them.
    rows
        Per file name.
    alleles_in_source
        ALT alleles in the source, as :class:`~genolewm_assets.sources.allele_count.AlleleCount` counts them;
        none in a source of sequences.
    """

    counts: Mapping[str, int]
    rows: Mapping[str, int]
    alleles_in_source: int = 0


def state_origin(code_version: str, recipe: Mapping[str, JsonValue], inputs: Iterable[InputRef] = ()) -> dict[str, str]:
    """Return what a shard's files say of how they were made: code version, parameters, digests of the inputs."""
    digests = {"/".join(filter(None, (each.asset, each.partition))): each.manifest_sha256 for each in inputs}
    texts = {"parameters": json.dumps(dict(recipe), sort_keys=True), "inputs": json.dumps(digests, sort_keys=True)}
    return {"code_version": code_version, **texts}


@contextmanager
def memory_given_back() -> Iterator[None]:
    """Let Arrow allocate from the C library meanwhile: its own allocator keeps what was freed, and a build is long."""
    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(before)


def write_shard_file(
    tables: Iterable[pa.Table], path: Path, schema: TableSchema, *, recipe: Mapping[str, str] | None = None
) -> int:
    """Write tables one after another into one Parquet file: zstd, row groups of ``ROW_GROUP_ROWS``.

    Parameters
    ----------
    tables
        Each in the order it shall have in the file; columns are selected and cast to ``schema``.
    path
        Overwritten; the caller publishes it (:mod:`genolewm_assets.store`).
    recipe
        Kept as key-value metadata under ``genolewm.<key>``; may hold no time, host or path.

    Returns
    -------
    int
        Rows written.

    Notes
    -----
    The same rows always give the same bytes, however the tables are cut. How a column is encoded follows from the
    rows at the file's begin, see :func:`choose_encodings`. zstd at level 1 takes less time than at level 3;
    ClinVar-like tables come out as small, gnomAD-like ones a tenth larger.
    """
    extra = {f"genolewm.{key}": value for key, value in sorted((recipe or {}).items())}
    arrow = schema.arrow.with_metadata({"genolewm.table": schema.name, **extra})
    path.parent.mkdir(parents=True, exist_ok=True)
    groups = _row_groups(tables, schema)
    begin = deque([next(groups, schema.empty())])
    repetitive, encodings = choose_encodings(begin[0])
    with pq.ParquetWriter(
        path,
        arrow,
        compression="zstd",
        compression_level=1,
        use_dictionary=repetitive,
        column_encoding=encodings,
        write_statistics=True,
        write_page_index=True,
    ) as writer:

        def write(group: pa.Table) -> int:
            if group.num_rows:
                writer.write_table(group.replace_schema_metadata(arrow.metadata), ROW_GROUP_ROWS)
            return int(group.num_rows)

        # In another thread: the next rows are made meanwhile.
        return sum(map_ahead(write, chain(_emptied(begin), groups), threads=1, ahead=0))


def _emptied(groups: deque[pa.Table]) -> Iterator[pa.Table]:
    while groups:
        yield groups.popleft()


def choose_encodings(table: pa.Table) -> tuple[list[str], dict[str, str]]:
    """Return which columns to encode with a dictionary, and the encodings of others that are not plain.

    A dictionary pays where at most half of the first 4,096 values are distinct; elsewhere it only costs time. Integers
    without one are written as differences. Columns are named by their path in Parquet.
    """
    repetitive, encodings = [], {}
    for name in table.column_names:
        path, column = name, table[name].slice(0, _SAMPLE_ROWS).combine_chunks()
        while pa.types.is_list(column.type):
            path, column = f"{path}.list.element", column.flatten()
        if 2 * pc.count_distinct(column, mode="all").as_py() <= len(column):
            repetitive.append(path)
        elif pa.types.is_integer(column.type):
            encodings[path] = "DELTA_BINARY_PACKED"
    return repetitive, encodings


def cast_table(table: pa.Table, schema: TableSchema) -> pa.Table:
    """Return a table with exactly the columns, types and nullability of a schema."""
    return table.select(schema.columns).cast(schema.arrow)


def _row_groups(tables: Iterable[pa.Table], schema: TableSchema) -> Iterator[pa.Table]:
    """Yield the rows in tables of ``ROW_GROUP_ROWS``, the last one smaller, none empty, in one piece each.

    The writer ends its pages by the pieces it is given: in one piece, pages depend on the rows alone.
    """
    waiting: list[pa.Table] = []
    rows = 0
    for table in tables:
        waiting.append(cast_table(table, schema))
        rows += table.num_rows
        while rows >= ROW_GROUP_ROWS:
            together = pa.concat_tables(waiting)
            waiting = [together.slice(0, ROW_GROUP_ROWS).combine_chunks(), together.slice(ROW_GROUP_ROWS)]
            rows -= ROW_GROUP_ROWS
            # Nothing here may keep a group in memory that its taker has done with.
            del together
            yield waiting.pop(0)
    if rows:
        yield pa.concat_tables(waiting).combine_chunks()
