"""Checksums of a finished array store: read them, and compare the files with them.

A checksum shows that a file is unchanged, not that it is valid: types and counts are validated before they are used.
"""

from __future__ import annotations

import os
import re
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from genolewm_assets.errors import MissingResourceError, ResourceError
from genolewm_assets.progress import ByteCount, Progress
from genolewm_assets.store.arrays.keys import BUILD_AGAIN, CACHE_VERSION, damaged
from genolewm_assets.store.arrays.layout import (
    CHECKSUMS,
    COMPLETE,
    INDEX,
    MOST,
    SHAPES,
    ArrayLayout,
    ArraySpec,
    crc32c,
    crc32c_file,
    is_complete,
    layout_from_json,
    read_json,
)
from genolewm_assets.store.arrays.memory import check_fits_memory
from genolewm_assets.store.files import open_plain, read_plain
from genolewm_assets.store.tables import open_parquet

_CRC = re.compile(r"[0-9a-f]{8}")
_MARKER = re.compile(rb"([0-9a-f]{8}) ([0-9a-f]{8})\n")
# Bytes per read and number of threads; with several threads, reading and checksumming overlap.
_READ_BYTES = 1 << 23
_THREADS = 4


@dataclass(frozen=True, slots=True)
class StoreChecksums:
    """Layout, row count and CRC-32C (8 hex digits) of each file and of each batch of an array, of a finished store."""

    directory: Path
    layout: ArrayLayout
    n_rows: int
    files: Mapping[str, int]
    arrays: Mapping[str, Sequence[str]]

    def rows_of(self, batch: int) -> tuple[int, int]:
        """Return the rows of a batch as (first, stop), 0-based half-open."""
        return batch * self.layout.batch_rows, min((batch + 1) * self.layout.batch_rows, self.n_rows)

    def batch_problem(self, name: str, batch: int, data: npt.NDArray[Any]) -> str | None:
        """Compare the checksum of a batch of rows; return a description of the difference, or None."""
        found, wanted = f"{crc32c(data):08x}", self.arrays[name][batch]
        if found == wanted:
            return None
        first, stop = self.rows_of(batch)
        return f"rows {first} to {stop - 1} differ from what was written: expected crc32c {wanted}, got crc32c {found}"

    def check_file(self, name: str) -> None:
        """Compare the checksum of a file other than an array."""
        path, wanted = self.directory / name, self.files[name]
        found = crc32c_file(path)
        if found != wanted:
            raise damaged(path, "content differs", f"crc32c {wanted:08x}", f"crc32c {found:08x}")

    def open_array(self, name: str) -> BinaryIO:
        """Open the file of an array and compare its size with the number of rows."""
        (spec,) = (spec for spec in self.layout.arrays if spec.name == name)
        path, wanted = self.directory / spec.file_name, self.n_rows * spec.row_bytes
        handle = open_plain(path)
        found = os.fstat(handle.fileno()).st_size
        if found == wanted:
            return handle
        handle.close()
        cut = f"; rows from {found // spec.row_bytes} on are missing" if found < wanted else ""
        raise damaged(path, f"size differs{cut}", f"{wanted} bytes ({self.n_rows} rows)", f"{found} bytes")

    @contextmanager
    def open_index(self) -> Iterator[pq.ParquetFile]:
        """Open ``index.parquet``; what Arrow cannot read inside the block is a CorruptResourceError too."""
        self.check_file(INDEX)
        path = self.directory / INDEX
        try:
            # Not pq.read_table, which turns `key=value` folders in the path into partition columns.
            with open_parquet(path) as file:
                same = file.schema_arrow.equals(self.layout.index_schema)
                if not same or file.metadata.num_rows != self.n_rows:
                    raise damaged(path, "is the index of another store")
                yield file
        except pa.ArrowException as err:
            raise damaged(path, f"cannot be read ({err})") from err

    def read_index(self) -> pa.Table:
        """Read ``index.parquet`` if it takes at most half of the usable memory."""
        with self.open_index() as file:
            groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
            check_fits_memory(sum(group.total_byte_size for group in groups), 0.5, str(self.directory / INDEX))
            return file.read()


def read_checksums(directory: Path) -> StoreChecksums:
    """Read layout, row count and checksums of a finished store; each file is checked with the one before it."""
    if not is_complete(directory):
        raise MissingResourceError(
            str(directory), "has no finished array store", expected=f"a file {COMPLETE!r}", remedy=BUILD_AGAIN
        )
    text = read_plain(directory / COMPLETE)
    match = _MARKER.fullmatch(text)
    if match is None or int(match[1], 16) ^ int(match[2], 16) != 0xFFFFFFFF:
        raise damaged(directory / COMPLETE, "content differs", "a checksum and its complement", repr(text))
    where, shapes_where = str(directory / CHECKSUMS), str(directory / SHAPES)
    document = read_json(directory / CHECKSUMS, int(match[1], 16))
    files = file_checksums_from_json(document, where)
    shapes = read_json(directory / SHAPES, files.get(SHAPES))
    layout, n_rows = layout_from_json(shapes, shapes_where), rows_from_json(shapes, shapes_where)
    arrays = batch_checksums_from_json(document, layout, n_rows, where)
    return StoreChecksums(directory, layout, n_rows, files, arrays)


def find_differences(checksums: StoreChecksums, progress: Progress) -> Iterator[str]:
    """Read every file of a store and yield one line for each file or batch of rows that differs."""
    for name in sorted(checksums.files):
        try:
            checksums.check_file(name)
        except ResourceError as err:
            wanted = f"{checksums.files[name]:08x}"
            yield f"{name}: {err.problem}: expected crc32c {wanted}, got {err.got or 'nothing'}"
    specs = checksums.layout.arrays
    count = ByteCount(progress, checksums.n_rows * sum(spec.row_bytes for spec in specs))
    for spec in specs:
        yield from (f"{spec.file_name}: {problem}" for problem in _array_differences(checksums, spec, count))


def _array_differences(checksums: StoreChecksums, spec: ArraySpec, count: ByteCount) -> Iterator[str]:
    # batch_rows may exceed the number of rows.
    batch_bytes = spec.row_bytes * min(checksums.layout.batch_rows, max(1, checksums.n_rows))
    n_batches, at_once = checksums.layout.n_batches(checksums.n_rows), max(1, _READ_BYTES // batch_bytes)
    # Reads, not a memory mapping: a disk error in a mapping ends the process (SIGBUS).
    try:
        with open_plain(checksums.directory / spec.file_name) as handle, ThreadPoolExecutor(_THREADS) as pool:

            def check(first: int) -> tuple[int, list[str]]:
                data = np.frombuffer(os.pread(handle.fileno(), at_once * batch_bytes, first * batch_bytes), np.uint8)
                batches = range(first, min(first + at_once, n_batches))
                parts = (data[(batch - first) * batch_bytes :][:batch_bytes] for batch in batches)
                problems = map(checksums.batch_problem, repeat(spec.name), batches, parts)
                return len(data), [problem for problem in problems if problem]

            for size_bytes, problems in pool.map(check, range(0, n_batches, at_once)):
                count.add(size_bytes)
                yield from problems
    except ResourceError as err:
        yield err.problem
    except OSError as err:
        yield f"cannot be read ({err.strerror})"


def rows_from_json(document: object, where: str) -> int:
    """Return the row count in the document of ``shapes.json``."""
    n_rows = document.get("n_rows") if isinstance(document, dict) else None
    if type(n_rows) is not int or not 0 <= n_rows <= MOST:
        raise damaged(where, "invalid row count", f"0 to {MOST}", reprlib.repr(n_rows))
    return n_rows


def file_checksums_from_json(document: object, where: str) -> dict[str, int]:
    """Return the CRC-32C of each file in the document of ``crc.json``; the file names are not checked."""
    version = document.get("layout_version") if isinstance(document, dict) else None
    if not isinstance(document, dict) or version != CACHE_VERSION:
        wanted = f"layout version {CACHE_VERSION}"
        raise damaged(where, "cannot be read by this code", wanted, reprlib.repr(version))
    files = document.get("files")
    if not isinstance(files, dict) or not all(_is_crc(crc) for crc in files.values()):
        raise damaged(where, "has no checksums of files")
    return {name: int(crc, 16) for name, crc in files.items()}


def batch_checksums_from_json(
    document: Mapping[str, Any], layout: ArrayLayout, n_rows: int, where: str
) -> dict[str, list[str]]:
    """Return the CRC-32C of each batch, 8 hex digits, by array, from the document of ``crc.json``."""
    if set(document["files"]) != set(layout.described_files):
        wanted, got = str(sorted(layout.described_files)), reprlib.repr(sorted(document["files"]))
        raise damaged(where, "describes other files", wanted, got)
    arrays, names = document.get("arrays"), {spec.name for spec in layout.arrays}
    if not isinstance(arrays, dict) or set(arrays) != names:
        raise damaged(where, "describes other arrays", str(sorted(names)), reprlib.repr(arrays))
    for name, crcs in arrays.items():
        if not isinstance(crcs, list) or len(crcs) != layout.n_batches(n_rows) or not all(map(_is_crc, crcs)):
            wanted = f"{layout.n_batches(n_rows)} of 8 hex digits"
            raise damaged(where, f"wrong checksums of array {name!r}", wanted, reprlib.repr(crcs))
    return arrays


def sidecar_texts_from_json(document: object, where: str) -> list[str]:
    """Return the texts in the document of a side-car, in the order of their keys 0, 1, 2, ..."""
    texts = [document.get(str(key)) for key in range(len(document))] if isinstance(document, dict) else [None]
    if not all(isinstance(text, str) for text in texts):
        raise damaged(where, "is not a valid side-car", "texts by key from 0 on")
    return cast("list[str]", texts)


def _is_crc(value: object) -> bool:
    return isinstance(value, str) and _CRC.fullmatch(value) is not None
