"""Finish an array store: write index, side-cars and checksums of the committed rows, then ``_COMPLETE``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.store.arrays.keys import CACHE_VERSION, FINGERPRINT
from genolewm_assets.store.arrays.layout import (
    CHECKSUMS,
    COMMIT_LOG,
    COMPLETE,
    INDEX,
    SHAPES,
    SIDECAR_LOG,
    ArrayLayout,
    complete_text,
    crc32c_file,
    sidecar_file,
)
from genolewm_assets.store.arrays.log import Columns, read_commits
from genolewm_assets.store.arrays.rows import read_sidecar_log
from genolewm_assets.store.files import JsonValue, canonical_json, open_plain, sync_tree, write_atomic

_ROW_GROUP_ROWS = 65_536


def finish_store(
    directory: Path,
    layout: ArrayLayout,
    crc: Mapping[str, Sequence[int]],
    n_rows: int,
    fingerprint: Mapping[str, JsonValue],
) -> None:
    """Write the files of a finished store other than the arrays; ``crc``: CRC-32C of every batch, by array."""
    where = str(directory)
    for spec in layout.arrays:
        with open_plain(directory / spec.file_name) as handle:
            size_bytes = os.fstat(handle.fileno()).st_size
        _check_equal(directory / spec.file_name, "bytes", n_rows * spec.row_bytes, size_bytes)
    written = _write_index(directory / INDEX, layout.index_schema, read_commits(directory))
    _check_equal(directory / COMMIT_LOG, "rows", n_rows, written)
    _write_sidecars(directory, layout)
    write_atomic(directory / SHAPES, canonical_json({**layout.as_json(), "n_rows": n_rows}, where))
    write_atomic(directory / FINGERPRINT, canonical_json(dict(fingerprint), where))
    checksums = _checksums(directory, layout, crc)
    write_atomic(directory / CHECKSUMS, checksums)
    # All other files must be on disk before _COMPLETE exists.
    sync_tree(directory)
    write_atomic(directory / COMPLETE, complete_text(checksums))


def _check_equal(path: Path, what: str, expected: int, got: int) -> None:
    if got != expected:
        raise CorruptResourceError(
            str(path),
            "was changed by another process while it was written",
            expected=f"{expected} {what}",
            got=f"{got} {what}",
            remedy="Do not change the directory during a build, and run it again",
        )


def _write_index(path: Path, schema: pa.Schema, commits: Iterable[Columns]) -> int:
    """Write ``index.parquet`` in row groups of 65,536 rows, independent of the commits; return the number of rows."""
    rows = 0
    # Remove the file of a killed writer, or a link, which would redirect the writing to another file.
    path.unlink(missing_ok=True)
    with pq.ParquetWriter(path, schema, compression="zstd", compression_level=3) as writer:
        for group in _row_groups(schema, commits):
            # Page borders depend on the chunks of a column; with one chunk, they depend on the rows alone.
            writer.write_table(group.combine_chunks(), _ROW_GROUP_ROWS)
            rows += group.num_rows
    return rows


def _row_groups(schema: pa.Schema, commits: Iterable[Columns]) -> Iterator[pa.Table]:
    """Yield the rows of all commits in tables of 65,536 rows; the last one has fewer."""
    parts: list[pa.RecordBatch] = []
    first, n_waiting = 0, 0
    for columns in commits:
        n_rows = len(columns[0])
        numbered = (np.arange(first, first + n_rows), *columns)
        arrays = [pa.array(values, field.type) for values, field in zip(numbered, schema, strict=True)]
        parts.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
        first, n_waiting = first + n_rows, n_waiting + n_rows
        if n_waiting >= _ROW_GROUP_ROWS:
            waiting = pa.Table.from_batches(parts)
            while len(waiting) >= _ROW_GROUP_ROWS:
                yield waiting.slice(0, _ROW_GROUP_ROWS)
                waiting = waiting.slice(_ROW_GROUP_ROWS)
            parts, n_waiting = waiting.to_batches(), len(waiting)
    if n_waiting:
        yield pa.Table.from_batches(parts)


def _write_sidecars(directory: Path, layout: ArrayLayout) -> None:
    with (directory / SIDECAR_LOG).open("rb") as log:
        texts = read_sidecar_log(log)
    for name in layout.sidecars:
        by_key = {str(key): text for key, text in enumerate(texts.get(name, ()))}
        write_atomic(directory / sidecar_file(name), canonical_json(by_key, str(directory)))


def _checksums(directory: Path, layout: ArrayLayout, crc: Mapping[str, Sequence[int]]) -> bytes:
    """Return the content of ``crc.json``."""
    document = {
        "layout_version": CACHE_VERSION,
        "arrays": {name: [f"{value:08x}" for value in values] for name, values in crc.items()},
        "files": {name: f"{crc32c_file(directory / name):08x}" for name in layout.described_files},
    }
    return canonical_json(document, str(directory))
