"""The checksums of a finished array store: what they say, and what on disk differs from it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from genolewm_assets.errors import CorruptResourceError, MissingResourceError
from genolewm_assets.store.array_layout import (
    CHECKSUMS,
    COMPLETE,
    SHAPES,
    ArrayLayout,
    ArraySpec,
    crc32c,
    crc32c_file,
    is_complete,
    layout_from_json,
    read_json,
)
from genolewm_assets.store.progress import ByteCount, Progress

BUILD_AGAIN = "Build the array store again"
_MARKER = re.compile(rb"([0-9a-f]{8}) ([0-9a-f]{8})\n")
# Bytes that one thread reads at a time, and threads: the disk is read while a checksum is computed.
_READ_BYTES = 1 << 23
_THREADS = 4


@dataclass(frozen=True, slots=True)
class StoreChecksums:
    """What was written into a finished store.

    Attributes
    ----------
    files
        CRC-32C of each file that is no array.
    arrays
        CRC-32C of each batch of rows, by array; 8 hex digits.
    """

    directory: Path
    layout: ArrayLayout
    n_rows: int
    files: Mapping[str, int]
    arrays: Mapping[str, Sequence[str]]

    def rows_of(self, batch: int) -> tuple[int, int]:
        """Return the rows of a batch, half-open."""
        return batch * self.layout.batch_rows, min((batch + 1) * self.layout.batch_rows, self.n_rows)

    def batch_problem(self, name: str, batch: int, data: npt.NDArray[Any]) -> str | None:
        """Compare a batch of rows of an array with what was written; returns what differs."""
        found, wanted = f"{crc32c(data):08x}", self.arrays[name][batch]
        if found == wanted:
            return None
        first, stop = self.rows_of(batch)
        return f"rows {first} to {stop - 1} differ from what was written: expected crc32c {wanted}, got crc32c {found}"

    def check_file(self, name: str) -> None:
        """Compare a file that is no array with what was written.

        Raises
        ------
        MissingResourceError, CorruptResourceError
            If it cannot be read, or differs.
        """
        path, wanted = self.directory / name, self.files[name]
        try:
            found = crc32c_file(path)
        except OSError as err:
            raise MissingResourceError(str(path), f"cannot be read ({err.strerror})", remedy=BUILD_AGAIN) from err
        if found != wanted:
            raise CorruptResourceError(
                str(path),
                "content differs",
                expected=f"crc32c {wanted:08x}",
                got=f"crc32c {found:08x}",
                remedy=BUILD_AGAIN,
            )

    def check_size(self, name: str) -> None:
        """Compare the size of an array's file with its rows.

        Raises
        ------
        MissingResourceError, CorruptResourceError
            If it is gone, shorter or longer.
        """
        (spec,) = (spec for spec in self.layout.arrays if spec.name == name)
        path, wanted = self.directory / spec.file_name, self.n_rows * spec.row_bytes
        try:
            found = path.stat().st_size
        except OSError as err:
            raise MissingResourceError(str(path), f"cannot be read ({err.strerror})", remedy=BUILD_AGAIN) from err
        if found != wanted:
            cut = f"; rows from {found // spec.row_bytes} on are missing" if found < wanted else ""
            raise CorruptResourceError(
                str(path),
                f"size differs{cut}",
                expected=f"{wanted} bytes ({self.n_rows} rows)",
                got=f"{found} bytes",
                remedy=BUILD_AGAIN,
            )


def read_checksums(directory: Path) -> StoreChecksums:
    """Read what a finished store says of itself, each file checked by the one before it, ``_COMPLETE`` first.

    Raises
    ------
    MissingResourceError
        If there is no finished store.
    CorruptResourceError
        If a file was altered.
    """
    if not is_complete(directory):
        raise MissingResourceError(
            str(directory), "holds no finished array store", expected=f"a file {COMPLETE!r}", remedy=BUILD_AGAIN
        )
    text = (directory / COMPLETE).read_bytes()
    match = _MARKER.fullmatch(text)
    if match is None or int(match[1], 16) ^ int(match[2], 16) != 0xFFFFFFFF:
        raise CorruptResourceError(
            str(directory / COMPLETE),
            "content differs",
            expected="a checksum and its complement",
            got=repr(text),
            remedy=BUILD_AGAIN,
        )
    document = read_json(directory / CHECKSUMS, int(match[1], 16))
    files = {name: int(crc, 16) for name, crc in document["files"].items()}
    shapes = read_json(directory / SHAPES, files[SHAPES])
    layout = layout_from_json(shapes, str(directory / SHAPES))
    return StoreChecksums(directory, layout, int(shapes["n_rows"]), files, document["arrays"])


def find_differences(checksums: StoreChecksums, progress: Progress) -> Iterator[str]:
    """Read every file of a store and yield one line for each, or for each batch of rows, that differs."""
    for name in sorted(checksums.files):
        try:
            checksums.check_file(name)
        except (MissingResourceError, CorruptResourceError) as err:
            wanted = f"{checksums.files[name]:08x}"
            yield f"{name}: {err.problem}: expected crc32c {wanted}, got {err.got or 'nothing'}"
    specs = checksums.layout.arrays
    count = ByteCount(progress, checksums.n_rows * sum(spec.row_bytes for spec in specs))
    for spec in specs:
        yield from (f"{spec.file_name}: {problem}" for problem in _array_differences(checksums, spec, count))


def _array_differences(checksums: StoreChecksums, spec: ArraySpec, count: ByteCount) -> Iterator[str]:
    batch_bytes, n_batches = spec.row_bytes * checksums.layout.batch_rows, checksums.layout.n_batches(checksums.n_rows)
    at_once = max(1, _READ_BYTES // batch_bytes)
    # Not through a mapping, by which a failing disk would end the process.
    try:
        with (checksums.directory / spec.file_name).open("rb") as handle, ThreadPoolExecutor(_THREADS) as pool:

            def check(first: int) -> tuple[int, list[str]]:
                data = np.frombuffer(os.pread(handle.fileno(), at_once * batch_bytes, first * batch_bytes), np.uint8)
                batches = range(first, min(first + at_once, n_batches))
                parts = (data[(batch - first) * batch_bytes :][:batch_bytes] for batch in batches)
                problems = map(checksums.batch_problem, repeat(spec.name), batches, parts)
                return len(data), [problem for problem in problems if problem]

            for size_bytes, problems in pool.map(check, range(0, n_batches, at_once)):
                count.add(size_bytes)
                yield from problems
    except OSError as err:
        yield f"cannot be read ({err.strerror})"
