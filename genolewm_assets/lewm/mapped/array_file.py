"""Arrays in NumPy's file format: written part by part, and opened without reading them.

Not here: which arrays there are (``layout``).
"""

from __future__ import annotations

import math
import mmap
import tempfile
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.errors import CorruptResourceError, MissingResourceError
from genolewm_assets.store.files import limit_resident

#: What to do about a damaged array of a package.
REBUILD: Final = "Rebuild the package, or copy it again"
#: Bytes before the first number: NumPy leaves room for any number of rows in the header.
HEADER_BYTES: Final = 128
#: Arrays from this size on are put aside.
_ASIDE_BYTES: Final = 1 << 20


class ArrayWriter:
    """Writes an array row by row; the header, with the number of rows, is written when the file is closed.

    Parameters
    ----------
    path
        The file; its folder is made.
    dtype
        Type of the numbers.
    row_shape
        Shape of a row.

    Attributes
    ----------
    rows
        Number of rows written so far.
    """

    def __init__(self, path: Path, dtype: np.dtype[Any], row_shape: tuple[int, ...] = ()) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._dtype, self._row_shape, self.rows = dtype, row_shape, 0
        self._file = path.open("xb")
        self._file.write(self._header())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._file.seek(0)
            self._file.write(self._header())
        self._file.close()

    def append(self, rows: NDArray[Any]) -> None:
        """Write rows: any type that casts without loss, shape (n, *row_shape)."""
        cast = np.ascontiguousarray(rows.astype(self._dtype, casting="same_kind", copy=False))
        if cast.shape[1:] != self._row_shape:
            raise ValueError(f"rows have shape {cast.shape[1:]}, expected {self._row_shape}")
        self._file.write(cast.data if cast.size else b"")
        self.rows += len(cast)

    def _header(self) -> bytes:
        buffer = BytesIO()
        np.lib.format.write_array_header_1_0(
            buffer,
            {
                "descr": np.lib.format.dtype_to_descr(self._dtype),
                "fortran_order": False,
                "shape": (self.rows, *self._row_shape),
            },
        )
        header = buffer.getvalue()
        if len(header) != HEADER_BYTES:
            raise ValueError(f"the header of an array takes {len(header)} bytes, expected {HEADER_BYTES}")
        return header


def write_array(path: Path, array: NDArray[Any], dtype: np.dtype[Any]) -> None:
    """Write a whole array."""
    with ArrayWriter(path, dtype, array.shape[1:]) as writer:
        writer.append(array)


def check_array_file(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...], *, remedy: str = REBUILD) -> None:
    """Raise unless a file holds an array of a type and shape; its numbers are not read.

    Raises
    ------
    MissingResourceError
        If the file is missing.
    CorruptResourceError
        If its header or size is another.
    """
    try:
        with path.open("rb") as file:
            found = _read_header(file.read(HEADER_BYTES))
            size = path.stat().st_size
    except FileNotFoundError as err:
        raise MissingResourceError(str(path), "file is missing", remedy=remedy) from err
    wanted = (dtype, False, shape)
    expected = HEADER_BYTES + math.prod(shape) * dtype.itemsize
    if found != wanted or size != expected:
        raise CorruptResourceError(
            str(path),
            "is not the array that its index states",
            expected=f"{dtype.str} of shape {shape} in {expected:,} bytes",
            got=f"{size:,} bytes" if found == wanted else str(found),
            remedy=remedy,
        )


def map_array(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...], *, remedy: str = REBUILD) -> NDArray[Any]:
    """Map an array, read-only; its pages are given back when many are resident (``store.files.count_read``).

    Errors are those of :func:`check_array_file`, which is called: the file may be another than when it was first seen.
    """
    check_array_file(path, dtype, shape, remedy=remedy)
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    limit_resident(mapped, again=True)
    return np.ndarray(shape, dtype, buffer=mapped, offset=HEADER_BYTES)


def put_aside(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array whose numbers lie in a mapped file without name, read-only; a small array is returned itself.

    What is kept of every window or visit would otherwise make a process as large as its package has windows. Where no
    temporary file can be written, the array stays in memory.
    """
    if array.nbytes < _ASIDE_BYTES:
        return array
    try:
        with tempfile.TemporaryFile(prefix="genolewm-") as file:
            array.tofile(file)
            mapped = mmap.mmap(file.fileno(), array.nbytes, access=mmap.ACCESS_READ)
    except OSError:
        return array
    limit_resident(mapped, again=True)
    return np.ndarray(array.shape, array.dtype, buffer=mapped)


def _read_header(header: bytes) -> tuple[np.dtype[Any], bool, tuple[int, ...]] | None:
    """Return type, order and shape; None if the bytes are no header of version 1.0."""
    buffer = BytesIO(header)
    try:
        if np.lib.format.read_magic(buffer) != (1, 0):
            return None
        shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(buffer)
    except (ValueError, SyntaxError):
        return None
    return dtype, fortran_order, shape
