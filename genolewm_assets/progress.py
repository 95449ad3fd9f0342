"""Progress reports of long-running work: the protocol, a listener that ignores them, and a byte counter."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """A listener for progress; the commands implement it as a bar, the assets as log lines."""

    def advance(self, done: int, total: int | None, unit: str) -> None:
        """Report that ``done`` of ``total`` units are finished; ``total`` is None if unknown.

        ``unit`` says what is counted and names the stage: ``windows``, ``bytes hashed``.
        """


class _NoProgress:
    def advance(self, done: int, total: int | None, unit: str) -> None:
        del done, total, unit


#: The listener that ignores everything.
NO_PROGRESS: Progress = _NoProgress()


class ByteCount:
    """A running count of bytes, of those expected from all readers together, to which several readers add in turn."""

    def __init__(self, progress: Progress, total: int, unit: str = "bytes hashed") -> None:
        self._progress, self._total, self._done, self._unit = progress, total, 0, unit

    def expect(self, size_bytes: int) -> None:
        """Add ``size_bytes`` of further readers to the total."""
        self._total += size_bytes

    def add(self, size_bytes: int) -> None:
        """Add ``size_bytes`` to the count and report it."""
        self._done += size_bytes
        self._progress.advance(self._done, self._total, self._unit)
