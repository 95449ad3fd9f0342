"""Arrays in NumPy's file format: written part by part, and mapped. Not here: which ones there are (``layout``)."""

from __future__ import annotations

import math
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO, Final, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.errors import CorruptResourceError, MissingResourceError

#: What to do about a damaged array of a package.
REBUILD: Final = "Rebuild the package, or copy it again"
#: Bytes before the first number: NumPy leaves room for any number of rows in the header.
HEADER_BYTES: Final = 128


class Output(Protocol):
    """What is written of a file: its bytes in order, and the header last."""

    def write(self, data: bytes | memoryview, /) -> object:
        """Write bytes at the current place."""

    def seek(self, at: int, /) -> object:
        """Go to a byte."""

    def close(self) -> None:
        """End the file."""


#: Opens a file to be written, given by its path.
Create: TypeAlias = Callable[[Path], Output]


def create_file(path: Path) -> BinaryIO:
    """Create a file, and the folders that it needs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("xb")


class ArrayWriter:
    """Writes an array row by row; the header, with the number of rows, is written when the file is closed."""

    def __init__(
        self, path: Path, dtype: np.dtype[Any], row_shape: tuple[int, ...] = (), create: Create = create_file
    ) -> None:
        self._dtype, self._row_shape, self.rows = dtype, row_shape, 0
        self._file = create(path)
        self._file.seek(HEADER_BYTES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._file.seek(0)
            self._file.write(self._header())
        self._file.close()

    def append(self, rows: NDArray[Any]) -> None:
        """Write rows: any type that casts without loss, shape (n, *row_shape)."""
        cast = np.ascontiguousarray(rows.astype(self._dtype, casting="same_kind", copy=False))
        if not (np.can_cast(rows.dtype, self._dtype) or np.array_equal(cast, rows)):
            raise ValueError(f"rows hold numbers that {self._dtype} cannot")
        if cast.shape[1:] != self._row_shape:
            raise ValueError(f"rows have shape {cast.shape[1:]}, expected {self._row_shape}")
        self._file.write(cast.data if cast.size else b"")
        self.rows += len(cast)

    def _header(self) -> bytes:
        buffer = BytesIO()
        shape, descr = (self.rows, *self._row_shape), np.lib.format.dtype_to_descr(self._dtype)
        np.lib.format.write_array_header_1_0(buffer, {"descr": descr, "fortran_order": False, "shape": shape})
        header = buffer.getvalue()
        if len(header) != HEADER_BYTES:
            raise ValueError(f"the header of an array takes {len(header)} bytes, expected {HEADER_BYTES}")
        return header


def write_array(path: Path, array: NDArray[Any], dtype: np.dtype[Any], create: Create = create_file) -> None:
    """Write a whole array."""
    with ArrayWriter(path, dtype, array.shape[1:], create) as writer:
        writer.append(array)


def map_array(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Map an array, read-only; one that is missing, or has another type, shape or size, is an error."""
    try:
        mapped, size = np.lib.format.open_memmap(path, mode="r"), path.stat().st_size
        found = f"{mapped.dtype.str} of shape {mapped.shape} in {size:,} bytes"
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as err:
        raise MissingResourceError(str(path), "file is missing", remedy=REBUILD) from err
    except (ValueError, TypeError, OverflowError, SyntaxError, TokenError) as err:
        found = f"no array ({err})"
    expected = f"{dtype.str} of shape {shape} in {HEADER_BYTES + math.prod(shape) * dtype.itemsize:,} bytes"
    if found != expected or not mapped.flags.c_contiguous:
        raise CorruptResourceError(
            str(path), "is not the array that its index states", expected=expected, got=found, remedy=REBUILD
        )
    # Not numpy.memmap: slicing it takes ten times as long as slicing an ndarray.
    return np.asarray(mapped)
