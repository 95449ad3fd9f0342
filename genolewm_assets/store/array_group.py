"""Rows of an array store whose data are written and whose commit is to come."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from genolewm_assets.store.array_layout import ArrayLayout


class CommitGroup:
    """Rows that wait for the next commit.

    Attributes
    ----------
    n_rows
        How many.
    columns
        Their index values, by column.
    """

    def __init__(self, layout: ArrayLayout) -> None:
        self.n_rows = 0
        self.columns: list[list[Any]] = [[] for _ in layout.index_schema.names[1:]]
        self._began_s = 0.0

    def add(self, columns: Sequence[Sequence[Any]]) -> None:
        """Add rows."""
        if not self.n_rows:
            self._began_s = time.monotonic()
        self.n_rows += len(columns[0])
        for column, values in zip(self.columns, columns, strict=True):
            column.extend(values)

    def waited_ms(self) -> float:
        """Return how long the oldest row has waited; 0 without rows."""
        return (time.monotonic() - self._began_s) * 1_000 if self.n_rows else 0.0
