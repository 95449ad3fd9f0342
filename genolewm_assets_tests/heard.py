"""Progress that keeps what it is told."""

from __future__ import annotations


class Heard(list[tuple[int, int | None, str]]):
    """Amounts done, their totals and units, in the order in which they were told."""

    def advance(self, done: int, total: int | None, unit: str) -> None:
        self.append((done, total, unit))
