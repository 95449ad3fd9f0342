"""A second reader of scrambled ABIF files, written for the NIST runs alone: bytes by ``struct``, no checks."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

_TRACE = b"DATA" + struct.pack(">IHH", 1, 4, 2)
_SCALARS = {1: ">B", 3: ">H", 4: ">h", 5: ">i", 7: ">f", 13: ">?"}


class PlainEntry(NamedTuple):
    name: str
    number: int
    kind: int
    unit: int
    count: int
    size: int
    place: bytes
    handle: int

    def stored(self, data: bytes) -> bytes:
        at = int.from_bytes(self.place, "big")
        return self.place[: self.size] if self.size <= 4 else data[at : at + self.size]

    def inline_scalar(self) -> float:
        code = _SCALARS[self.kind]
        return struct.unpack(code, self.place[: struct.calcsize(code)])[0]

    @property
    def is_inline_scalar(self) -> bool:
        return self.kind in _SCALARS and self.count == 1


def header_entries(path: Path) -> tuple[bytes, list[PlainEntry]]:
    """Return the bytes of a file and the directory that its header points to."""
    data = path.read_bytes()
    count, _, at = struct.unpack(">III", data[18:30])
    return data, [_entry(data, at + 28 * row) for row in range(count)]


def plain_entries(path: Path) -> tuple[bytes, list[PlainEntry]]:
    """Return the bytes of a file and its last plaintext directory."""
    data = path.read_bytes()
    start = data.rindex(_TRACE)
    while data[start - 28 : start - 24].strip(b"\0").isascii() and data[start - 28 : start - 24].isalnum():
        start -= 28
    entries = []
    while data[start : start + 4] > b"A":
        entries.append(_entry(data, start))
        start += 28
    return data, entries


def _entry(data: bytes, at: int) -> PlainEntry:
    name, number, kind, unit, count, size, place, handle = struct.unpack(">4sIHHII4sI", data[at : at + 28])
    return PlainEntry(name.decode("latin-1"), number, kind, unit, count, size, place, handle)
