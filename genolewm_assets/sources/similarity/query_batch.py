"""Windows of one Arrow batch as arrays that compiled loops read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class QueryBatch:
    """Windows of a ``table`` of ``QUERIES``; ``data``: their ASCII bases; ``offsets``, (n_windows + 1,): of each."""

    table: pa.Table
    data: NDArray[np.uint8]
    offsets: NDArray[np.int64]

    @classmethod
    def of(cls, table: pa.Table) -> QueryBatch:
        """Return the windows of a table."""
        return cls(table, *as_arrays(table["bases"]))

    def __len__(self) -> int:
        """Return the number of windows."""
        return self.offsets.size - 1

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Bases of each window: int64, shape (n_windows,)."""
        return np.diff(self.offsets)


def as_arrays(column: pa.ChunkedArray) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the bytes of a column ``large_binary`` without nulls, and where each row begins, its end included."""
    joined = column.combine_chunks()
    _, offsets, data = joined.buffers()
    if not len(joined):
        return np.empty(0, dtype=np.uint8), np.zeros(1, dtype=np.int64)
    begins = np.frombuffer(offsets, dtype=np.int64)[joined.offset : joined.offset + len(joined) + 1]
    return np.frombuffer(data, dtype=np.uint8) if data is not None else np.empty(0, dtype=np.uint8), begins


def as_column(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> pa.LargeBinaryArray:
    """Return bytes as a column; the inverse of :func:`as_arrays`."""
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), offsets.size - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
