"""Pieces of a text, and numbers with gaps, one per row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Spans(NamedTuple):
    """One piece of text per row: bytes ``[at, to)`` of it, int32, shape (rows,); ``at = -1`` if the value is absent."""

    at: Ints
    to: Ints

    def take(self, rows: npt.NDArray[np.integer]) -> Spans:
        """Return the spans of the rows with these indices."""
        return Spans(self.at[rows], self.to[rows])


class Numbers(NamedTuple):
    """One number per row: values, int64 or float64, and whether a row has a value, bool, both of shape (rows,)."""

    values: npt.NDArray[np.int64] | npt.NDArray[np.float64]
    there: Bools

    def take(self, rows: npt.NDArray[np.integer]) -> Numbers:
        """Return the numbers of the rows with these indices."""
        return Numbers(self.values[rows], self.there[rows])

    def arrow(self) -> pa.Array:
        """Return an Arrow array, null in rows without a value."""
        return pa.array(self.values, mask=None if self.there.all() else ~self.there)
