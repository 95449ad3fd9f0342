"""Rows of a table that are chosen by lot while it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from genolewm_assets.audit.reading.package_files import table_of

Choose = Callable[[pa.RecordBatch], NDArray[np.bool_]]


class Lot:
    """Of all rows given, or of those that ``is_ours`` tells, ``most`` that are chosen by lot, in the order given."""

    def __init__(self, most: int, rng: np.random.Generator, is_ours: Choose | None = None) -> None:
        self._most, self._rng, self._is_ours = most, rng, is_ours
        self._parts, self._drawn = list[pa.RecordBatch](), np.empty(0)

    def note(self, batch: pa.RecordBatch) -> None:
        """Take part of a batch; a row stays while fewer than ``most`` have a lower number."""
        drawn = self._rng.random(batch.num_rows)
        if self._is_ours is not None:
            drawn[~self._is_ours(batch)] = 1
        rows = np.flatnonzero(drawn < self._least_lost())
        if len(rows):
            self._parts.append(batch.take(pa.array(rows)))
            self._drawn = np.append(self._drawn, drawn[rows])
        if len(self._drawn) >= 2 * self._most:
            self._settle()

    def _least_lost(self) -> float:
        return float(self._drawn.max()) if len(self._drawn) >= self._most else 1

    def _settle(self) -> None:
        rows = np.sort(np.argsort(self._drawn, kind="stable")[: self._most])
        kept = pa.Table.from_batches(self._parts).take(pa.array(rows)) if len(rows) else None
        self._parts, self._drawn = kept.to_batches() if kept is not None else [], self._drawn[rows]

    def rows(self, columns: Sequence[str]) -> pa.Table:
        """Return the rows that are chosen."""
        self._settle()
        return table_of(self._parts, columns)


def draw_lot(
    batches: Iterable[pa.RecordBatch],
    columns: Sequence[str],
    most: int,
    rng: np.random.Generator,
    is_ours: Choose | None = None,
) -> pa.Table:
    """Return rows of batches that are chosen by lot."""
    lot = Lot(most, rng, is_ours)
    for batch in batches:
        lot.note(batch)
    return lot.rows(columns)
