"""Rows of a cache by window hash: one sorted file per cache, made from its window table and bisected where it lies.

::

    header   88 bytes: b"GLWROWS1", SHA-256 of the window table in hex, rows (int64), CRC-32C of these (uint32), zeros
    records  40 bytes a row, sorted: window_hash, row (int64)
    checks   CRC-32C (uint32) of every 256 records

Numbers are little-endian. The file is ``<generation>.rows`` beside the generation of the cache. It is never changed, no
manifest lists it, and it can be made again at any time.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from genolewm_assets.errors import CorruptResourceError, InputError, MissingResourceError
from genolewm_assets.states.window_tables import WindowTable
from genolewm_assets.store.arrays import crc32c
from genolewm_assets.store.files import open_plain, reading, replacing

#: Length of a hash in bytes, and of the shortest prefix that can be searched for.
HASH_BYTES, SHORTEST_BYTES = 32, 16

_MAGIC, _HEADER = b"GLWROWS1", struct.Struct("<8s64sqI4x")
_RECORD = np.dtype([("hash", f"V{HASH_BYTES}"), ("row", "<i8")])
_SIZE = _RECORD.itemsize
#: Records per checksum.
_CHECKED_ROWS = 256
#: Rows that are put in order at a time.
_SORTED_ROWS = 65_536
_ROW_BITS = np.uint64(32)
_ROW_MASK = np.uint64((1 << 32) - 1)
REMEDY = "Make it again: genolewm cache index"


def lookup_path(generation: Path) -> Path:
    """Return the path of the look-up of a generation of a cache."""
    return generation.with_name(f"{generation.name}.rows")


def write_lookup(path: Path, table: WindowTable, n_rows: int) -> None:
    """Write the look-up of a window table; a kill leaves the former file or none.

    In memory are 8 bytes a row; the hashes wait in a file without a name. At most 2**32 rows.
    """
    if path.is_dir():
        raise CorruptResourceError(str(path), "is a folder, not a look-up", remedy="Remove the folder")
    keys = np.empty(n_rows, np.uint64)
    with replacing(path) as out, tempfile.TemporaryFile(dir=path.parent) as hashes:
        stop = 0
        for piece in table.read_hashes():
            first, stop = stop, stop + len(piece)
            # The first half of a key is the beginning of the hash, the second the row.
            prefixes = np.ascontiguousarray(piece[:, :4]).view(">u4")[:, 0].astype(np.uint64)
            keys[first:stop] = prefixes << _ROW_BITS | np.arange(first, stop, dtype=np.uint64)
            hashes.write(piece.tobytes())
        keys.sort()
        hashes.flush()
        out.write(_header(table.sha256, n_rows))
        for records in _sorted_records(keys, hashes):
            out.write(records.tobytes())
        out.flush()
        with mmap.mmap(out.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            checks = [_block_check(mapped, block, n_rows) for block in range(_n_blocks(n_rows))]
        out.write(np.array(checks, "<u4").tobytes())


def _sorted_records(keys: npt.NDArray[np.uint64], hashes: BinaryIO) -> Iterator[npt.NDArray[np.void]]:
    """Yield the records in pieces, sorted by hash and row; ``keys`` are sorted by the first four bytes of the hash."""
    if not len(keys):
        return
    with mmap.mmap(hashes.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        first = 0
        while first < len(keys):
            last = keys[min(first + _SORTED_ROWS, len(keys)) - 1]
            stop = int(np.searchsorted(keys, last | _ROW_MASK, side="right"))
            rows = (keys[first:stop] & _ROW_MASK).astype(np.int64)
            taken = np.frombuffer(mapped, f"V{HASH_BYTES}").take(rows)
            words = taken.view(">u8").reshape(-1, HASH_BYTES // 8)
            order = np.lexsort((rows, *words.T[::-1]))
            records = np.empty(len(rows), _RECORD)
            records["hash"], records["row"] = taken[order], rows[order]
            yield records
            first = stop


def _header(windows_sha256: str, n_rows: int) -> bytes:
    facts = _MAGIC, windows_sha256.encode(), n_rows
    return _HEADER.pack(*facts, crc32c(_HEADER.pack(*facts, 0)))


def _n_blocks(n_rows: int) -> int:
    return -(-n_rows // _CHECKED_ROWS)


def _block_check(mapped: mmap.mmap, block: int, n_rows: int) -> int:
    """Return the CRC-32C of the records of a block."""
    rows = block * _CHECKED_ROWS, min((block + 1) * _CHECKED_ROWS, n_rows)
    return crc32c(mapped[slice(*(_HEADER.size + row * _SIZE for row in rows))])


class RowLookup:
    """The look-up of one cache, mapped into memory; threads and forked processes may share it.

    The file must be of the same window table and of its length, and a search finds damaged records.
    """

    def __init__(self, path: Path, windows_sha256: str, n_rows: int) -> None:
        self.path, self.n_rows = path, n_rows
        try:
            with reading(path), open_plain(path, remedy=REMEDY) as handle:
                header, size_bytes = handle.read(_HEADER.size), os.fstat(handle.fileno()).st_size
                self._map = mmap.mmap(handle.fileno() if size_bytes else -1, size_bytes or 1, access=mmap.ACCESS_READ)
        except MissingResourceError as err:
            raise MissingResourceError(str(path), "there is no look-up of window hashes", remedy=REMEDY) from err
        if header != _header(windows_sha256, n_rows):
            raise self._corrupt(f"is not the look-up of the {n_rows} window hashes of its cache")
        wanted = _HEADER.size + n_rows * _SIZE + _n_blocks(n_rows) * 4
        if size_bytes != wanted:
            raise self._corrupt("size differs", f"{wanted} bytes", f"{size_bytes} bytes")

    def find(self, wanted: bytes) -> list[tuple[bytes, int]]:
        """Return hash and row of the rows whose hash begins with 16 to 32 bytes, sorted; errors as of the class."""
        if not SHORTEST_BYTES <= len(wanted) <= HASH_BYTES:
            expected = f"{SHORTEST_BYTES} to {HASH_BYTES} bytes"
            raise InputError("hash", "wrong length", expected=expected, got=f"{len(wanted)}")
        low, high = wanted.ljust(HASH_BYTES, b"\x00"), wanted.ljust(HASH_BYTES, b"\xff")
        first = bisect_left(range(self.n_rows), low, key=self._hash)
        stop = bisect_right(range(self.n_rows), high, lo=first, key=self._hash)
        # The neighbours too: a search that a damaged record misleads ends beside it.
        for block in range(max(first - 1, 0) // _CHECKED_ROWS, _n_blocks(min(stop + 1, self.n_rows))):
            self._check(block)
        return self._records(first, stop)

    def records(self) -> Iterator[tuple[bytes, int]]:
        """Yield hash and row of every row, sorted by both, after comparing their checksums."""
        for block in range(_n_blocks(self.n_rows)):
            self._check(block)
            first = block * _CHECKED_ROWS
            yield from self._records(first, min(first + _CHECKED_ROWS, self.n_rows))

    def verify(self) -> None:
        """Compare every record with its checksum; raises as the class."""
        for block in range(_n_blocks(self.n_rows)):
            self._check(block)

    def _hash(self, at: int) -> bytes:
        start = _HEADER.size + at * _SIZE
        return self._map[start : start + HASH_BYTES]

    def _records(self, first: int, stop: int) -> list[tuple[bytes, int]]:
        found = np.frombuffer(self._map, _RECORD, stop - first, _HEADER.size + first * _SIZE)
        return [(bytes(each), row) for each, row in zip(found["hash"], found["row"].tolist(), strict=True)]

    def _check(self, block: int) -> None:
        at = _HEADER.size + self.n_rows * _SIZE + block * 4
        if _block_check(self._map, block, self.n_rows) != int.from_bytes(self._map[at : at + 4], "little"):
            raise self._corrupt("a record differs from what was written")

    def _corrupt(self, problem: str, expected: str | None = None, got: str | None = None) -> CorruptResourceError:
        return CorruptResourceError(str(self.path), problem, expected=expected, got=got, remedy=REMEDY)
