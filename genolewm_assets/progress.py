"""How long-running work tells its caller how far it is."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """A listener for progress; bars, logs and the Dagster UI implement it at the edge."""

    def advance(self, done: int, total: int | None, unit: str) -> None:
        """Report ``done`` of ``total`` units; ``total`` is None where the end is unknown."""


class _NoProgress:
    def advance(self, done: int, total: int | None, unit: str) -> None:
        del done, total, unit


#: The listener that ignores everything.
NO_PROGRESS: Progress = _NoProgress()


class ByteCount:
    """A running count of bytes that several readers add to.

    Parameters
    ----------
    total
        Bytes expected in all.
    """

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def add(self, size_bytes: int) -> None:
        """Report ``size_bytes`` more."""
        self._done += size_bytes
        self._progress.advance(self._done, self._total, "bytes")
