"""Bases as Arrow columns have them, and packed two to a byte: in a file that is mapped, or a temporary one."""

from __future__ import annotations

import tempfile
import weakref
from itertools import pairwise
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int64]


def temporary_file(owner: object, folder: Path) -> IO[bytes]:
    """Open a nameless file in a folder, which is closed when its owner is no longer used."""
    file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed with its owner
    weakref.finalize(owner, file.close)
    return file


def read_bases(column: pa.Array) -> list[bytes]:
    """Return upper-case ASCII with T for U, empty for a null; '?', which is not a base, for a letter outside ASCII."""
    from genolewm_assets.sources.corpus import kernels

    column = column.cast(pa.large_string()).fill_null("")
    if not len(column):
        return []
    offsets = np.frombuffer(column.buffers()[1], np.int64)[column.offset :][: len(column) + 1]
    text = np.frombuffer(column.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    # Always read-only, because numba compiles a loop once more for writable arrays.
    text.flags.writeable = False
    upper = np.empty(len(text), dtype=np.uint8)
    if not kernels.upper_case(text, upper):
        texts = (text.encode("ascii", "replace") for text in column.to_pylist())
        return [text.upper().replace(b"U", b"T") for text in texts]
    view, ends = upper.data, (offsets - offsets[:1]).tolist()
    return [bytes(view[a:b]) for a, b in pairwise(ends)]


def pack(text: bytes) -> Bytes:
    """Return upper-case bases, two to a byte; symbols other than ACGT become N."""
    from genolewm_assets.sources.corpus import kernels

    packed = np.empty((len(text) + 1) // 2, dtype=np.uint8)
    kernels.pack(np.frombuffer(text, np.uint8), packed)
    return packed


class PackedBases:
    """Packed bases, dtype uint8, shape (n_bytes,); usually mapped."""

    def __init__(self, packed: Bytes) -> None:
        # A plain array that cannot be written, because numba compiles a loop once more for each kind.
        self._packed = np.asarray(packed).view(np.ndarray)
        self._packed.flags.writeable = False

    def read(self, first: int, size: int) -> bytes:
        """Return bases from one on, as upper-case text."""
        return self.read_all(np.array([first], np.int64), np.array([size], np.int64)).tobytes()

    def read_all(self, firsts: Numbers, sizes: Numbers) -> Bytes:
        """Return the letters of stretches, given by first base and size, one after another."""
        from genolewm_assets.sources.corpus import kernels

        text = np.empty(int(sizes.sum()), dtype=np.uint8)
        kernels.unpack(self._packed, firsts, sizes, text)
        return text


class BasesSpool:
    """Temporary file of packed bases in a folder; it goes with the object."""

    def __init__(self, folder: Path) -> None:
        self._file = temporary_file(self, folder)
        self._bytes = 0

    def append(self, text: bytes) -> int:
        """Add upper-case bases, and return the number of the first of them."""
        first, packed = 2 * self._bytes, pack(text)
        self._file.write(packed.data)
        self._bytes += packed.size
        return first

    def read_back(self) -> PackedBases:
        """Map all that was added so far."""
        self._file.flush()
        if not self._bytes:
            return PackedBases(np.zeros(0, np.uint8))
        return PackedBases(np.memmap(self._file, dtype=np.uint8, mode="r", shape=(self._bytes,)))
