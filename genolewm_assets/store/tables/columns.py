"""Arrow columns from numbers and texts and back, without ``pyarrow.array`` and ``to_numpy``.

These import pandas where it is installed, to ask whether they were given one of its objects: half a second and 30 MB
in a build that has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def number_column(values: npt.NDArray[np.generic], there: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Return numbers, or truth values, as a column; numbers are not copied.

    Parameters
    ----------
    values
        Shape (rows,).
    there
        Where there is a value, shape (rows,); elsewhere the column is null. None: everywhere.
    """
    kind = pa.from_numpy_dtype(values.dtype)
    content = _bits(values.astype(np.bool_)) if values.dtype == np.bool_ else pa.py_buffer(np.ascontiguousarray(values))
    valid = None if there is None or there.all() else _bits(there)
    return pa.Array.from_buffers(kind, len(values), [valid, content])


def numbers_of(column: pa.Array) -> npt.NDArray[Any]:
    """Return the numbers of a column without nulls, read-only and not copied."""
    kind = column.type.to_pandas_dtype()
    if not len(column):
        return np.empty(0, kind)
    values: npt.NDArray[Any] = np.frombuffer(column.buffers()[1], kind)[column.offset :][: len(column)]
    # Of one kind always: loops are compiled once for read-only arrays and once for others.
    values.flags.writeable = False
    return values


def text_column(texts: Sequence[str | None]) -> pa.StringArray:
    """Return texts as a column, null where there is None."""
    encoded = [(text or "").encode() for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    there = np.array([text is not None for text in texts], dtype=np.bool_)
    valid = None if there.all() else _bits(there)
    return pa.StringArray.from_buffers(len(texts), pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded)), valid)


def list_column(lists: Sequence[Sequence[object] | None], items: pa.Array) -> pa.ListArray:
    """Return lists as a column, null where there is None; ``items`` are those of all lists, one after another."""
    offsets = np.cumsum([0, *(len(each or ()) for each in lists)], dtype=np.int32)
    there = np.array([each is not None for each in lists], dtype=np.bool_)
    buffers = [None if there.all() else _bits(there), pa.py_buffer(offsets)]
    return pa.ListArray.from_buffers(pa.list_(items.type), len(lists), buffers, children=[items])


def repeated_text(text: str, rows: int) -> pa.StringArray:
    """Return a column of one text."""
    return pa.repeat(text_column([text])[0], rows)


def _bits(flags: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))
