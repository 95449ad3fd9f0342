"""Convert numbers and texts to Arrow columns and back without ``pyarrow.array`` and ``to_numpy``.

Those two import pandas if it is installed, which costs half a second and 30 MB.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def number_column(values: npt.NDArray[np.generic], there: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Return numbers or booleans as an Arrow column of the same dtype, without copying contiguous numbers.

    Where ``there`` (bool, shape (rows,)) is False, the row is null.
    """
    kind = pa.from_numpy_dtype(values.dtype)
    content = _bits(values.astype(np.bool_)) if values.dtype == np.bool_ else pa.py_buffer(np.ascontiguousarray(values))
    valid = None if there is None or there.all() else _bits(there)
    return pa.Array.from_buffers(kind, len(values), [valid, content])


def numbers_of(column: pa.Array) -> npt.NDArray[Any]:
    """Return the numbers of a column without nulls as a read-only view, dtype as in the column, shape (rows,)."""
    kind = column.type.to_pandas_dtype()
    if not len(column):
        return np.empty(0, kind)
    values: npt.NDArray[Any] = np.frombuffer(column.buffers()[1], kind)[column.offset :][: len(column)]
    # Always read-only, because Numba compiles a loop once more for writable arrays.
    values.flags.writeable = False
    return values


def text_column(texts: Sequence[str | None]) -> pa.StringArray:
    """Return texts as a column; None becomes null."""
    encoded = [(text or "").encode() for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    present = np.array([text is not None for text in texts], dtype=np.bool_)
    valid = None if present.all() else _bits(present)
    return pa.StringArray.from_buffers(len(texts), pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded)), valid)


def list_column(lists: Sequence[Sequence[object] | None], items: pa.Array) -> pa.ListArray:
    """Return a list column of concatenated items, with the lengths of one sequence per row; None becomes null."""
    offsets = np.cumsum([0, *(len(each or ()) for each in lists)], dtype=np.int32)
    present = np.array([each is not None for each in lists], dtype=np.bool_)
    buffers = [None if present.all() else _bits(present), pa.py_buffer(offsets)]
    return pa.ListArray.from_buffers(pa.list_(items.type), len(lists), buffers, children=[items])


def repeated_text(text: str, rows: int) -> pa.StringArray:
    """Return a column of ``rows`` copies of one text."""
    return pa.repeat(text_column([text])[0], rows)


def _bits(flags: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))
