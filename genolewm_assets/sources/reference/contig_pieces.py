"""A contig whose bases are read on demand."""

from __future__ import annotations

from collections.abc import Callable
from typing import overload

#: Pieces of a contig kept in memory; average number of reads per piece after which all pieces read are kept.
_PIECES_KEPT, _READS = 8, 8


class ContigPieces:
    """Bases of a contig, indexed from 0, read on demand in pieces of which eight are kept in memory.

    If access out of order reads pieces again and again, all pieces read from then on are kept, so that the contig is
    read at most nine times.

    ``length``: length of the contig, in bases. ``read``: returns the bases ``[start, end)``, 0-based.
    """

    def __init__(self, length: int, read: Callable[[int, int], bytes], *, piece_bp: int = 1 << 20) -> None:
        self._length, self._piece_bp, self._read = length, piece_bp, read
        self._kept: dict[int, bytes] = {}
        self._reads_left = _READS * -(-length // piece_bp)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, at: int, /) -> int: ...
    @overload
    def __getitem__(self, at: slice, /) -> bytes: ...
    def __getitem__(self, at: int | slice, /) -> int | bytes:
        """Return one base as an integer, or a slice as ``bytes``; the step of a slice is ignored."""
        if not isinstance(at, slice):
            number, place = divmod(range(self._length)[at], self._piece_bp)
            return self._piece(number)[place]
        start, end, _ = at.indices(self._length)
        if start >= end:
            return b""
        numbers = range(start // self._piece_bp, (end - 1) // self._piece_bp + 1)
        firsts = ((number, number * self._piece_bp) for number in numbers)
        return b"".join(self._piece(number)[max(0, start - first) : end - first] for number, first in firsts)

    def _piece(self, number: int) -> bytes:
        if number not in self._kept:
            self._reads_left -= 1
            if len(self._kept) >= _PIECES_KEPT and self._reads_left >= 0:
                del self._kept[next(iter(self._kept))]
            start = number * self._piece_bp
            self._kept[number] = self._read(start, min(start + self._piece_bp, self._length))
        return self._kept[number]
