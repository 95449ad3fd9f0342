"""Rows of a table for checks: texts of bases are bytes, and no row stays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

_BASES = ("sequence", "left_flank", "right_flank")

#: Row of a table, by column.
Row = Mapping[str, Any]


def rows_of(table: pa.Table) -> Iterator[Row]:
    """Yield the rows of a table; its columns become lists once."""
    names = table.column_names
    columns = [_bytes_of(table[name]) if name in _BASES else table[name].to_pylist() for name in names]
    for values in zip(*columns, strict=True):
        yield dict(zip(names, values, strict=True))


def count_known(bases: bytes) -> int:
    """Return how many symbols are A, C, G or T."""
    return len(bases) - len(bases.translate(None, b"ACGT"))


def count_gc(bases: bytes) -> int:
    """Return how many symbols are G or C."""
    symbols = np.frombuffer(bases, np.uint8)
    return int(np.count_nonzero((symbols == ord("G")) | (symbols == ord("C"))))


def _bytes_of(column: pa.ChunkedArray) -> list[bytes]:
    """Return texts without nulls as bytes, cut from the column's buffer by its offsets."""
    texts: list[bytes] = []
    for chunk in column.chunks:
        offsets = np.frombuffer(chunk.buffers()[1], np.int32)[chunk.offset :][: len(chunk) + 1]
        view = memoryview(chunk.buffers()[2] or b"")
        texts += [bytes(view[start:end]) for start, end in pairwise(offsets.tolist())]
    return texts
