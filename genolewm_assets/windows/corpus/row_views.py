"""Rows of a table as views of its columns, for checks: texts of bases are bytes, and no row is an object that stays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

_BASES = ("sequence", "left_flank", "right_flank")
_IS_KNOWN = np.isin(np.arange(256), [*b"ACGT"])
_IS_GC = np.isin(np.arange(256), [*b"GC"])


@dataclass(slots=True)
class RowView:
    """Row of a table by the number of the row: ``row["start"]``."""

    columns: Mapping[str, list[Any]]
    at: int

    def __getitem__(self, name: str) -> Any:
        return self.columns[name][self.at]


def views_of(table: pa.Table) -> Iterator[RowView]:
    """Yield the rows of a table; its columns become lists once."""
    columns = {
        name: _bytes_of(table[name]) if name in _BASES else table[name].to_pylist() for name in table.column_names
    }
    for at in range(table.num_rows):
        yield RowView(columns, at)


def count_known(bases: bytes) -> int:
    """Return how many symbols are A, C, G or T."""
    return int(np.count_nonzero(_IS_KNOWN[np.frombuffer(bases, np.uint8)]))


def count_gc(bases: bytes) -> int:
    """Return how many symbols are G or C."""
    return int(np.count_nonzero(_IS_GC[np.frombuffer(bases, np.uint8)]))


def _bytes_of(column: pa.ChunkedArray) -> list[bytes]:
    """Return texts without nulls as bytes, cut from the column's buffer by its offsets."""
    texts: list[bytes] = []
    for chunk in column.chunks:
        offsets = np.frombuffer(chunk.buffers()[1], np.int32)[chunk.offset :][: len(chunk) + 1]
        view = memoryview(chunk.buffers()[2] or b"")
        texts += [bytes(view[start:end]) for start, end in pairwise(offsets.tolist())]
    return texts
