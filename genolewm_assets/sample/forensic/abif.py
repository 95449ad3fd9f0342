"""Writes ABIF files whose main directory is scrambled, as the software of the ABI 3500 does (ABIF file format, 2006).

The plain values and a directory of them come first; nothing points to that directory. Enciphered copies of traces and
dyes follow, padded to blocks of eight bytes, and the directory that the header points to, with their element types.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_ENTRY = struct.Struct(">4sIHHIIII")
_HEADER_BYTES, _VERSION, _BLOCK_BYTES, _HANDLE = 128, 300, 8, 0x50000
_SHORT, _LONG, _PASCAL, _C_STRING, _DATE, _TIME = 4, 5, 18, 19, 10, 11
_UNIT_BYTES = {_SHORT: 2, _LONG: 4, _PASCAL: 1, _C_STRING: 1, _DATE: 4, _TIME: 4}
#: Element types of enciphered values by their plain ones.
_ENCIPHERED = {_SHORT: 28, _LONG: 31, _C_STRING: 33, _PASCAL: 34}
_HIDDEN = {"DATA", "DyeN", "DyeW", "ScPa", "Satd", "OfSc"}


@dataclass(frozen=True, slots=True)
class Tag:
    """One tag: name, number, element type, and its value as big-endian bytes."""

    name: str
    number: int
    kind: int
    value: bytes


def shorts(name: str, number: int, values: npt.ArrayLike) -> Tag:
    """Return a tag of 16-bit numbers."""
    return Tag(name, number, _SHORT, np.atleast_1d(np.asarray(values)).astype(">i2").tobytes())


def longs(name: str, number: int, values: npt.ArrayLike) -> Tag:
    """Return a tag of 32-bit numbers."""
    return Tag(name, number, _LONG, np.atleast_1d(np.asarray(values)).astype(">i4").tobytes())


def pascal(name: str, number: int, text: str) -> Tag:
    """Return a string with its length before it."""
    return Tag(name, number, _PASCAL, bytes([len(text)]) + text.encode("ascii"))


def c_string(name: str, number: int, text: str) -> Tag:
    """Return a string that ends with a zero."""
    return Tag(name, number, _C_STRING, text.encode("ascii") + b"\0")


def moment(number: int, day: tuple[int, int, int], clock: tuple[int, int, int]) -> tuple[Tag, Tag]:
    """Return the date (year, month, day) and the time of a stage of the run."""
    date = day[0].to_bytes(2, "big") + bytes(day[1:])
    return Tag("RUND", number, _DATE, date), Tag("RUNT", number, _TIME, bytes([*clock, 0]))


def write_abif(tags: Sequence[Tag]) -> bytes:
    """Return the bytes of a file with some tags, in order of name and number."""
    ordered = sorted(tags, key=lambda tag: (tag.name, tag.number))
    body = bytearray(_HEADER_BYTES)
    plain = [_store(body, tag) for tag in ordered]
    body += bytes(_ENTRY.size) + b"".join(plain) + bytes(_ENTRY.size)
    entries = [
        _store(body, _encipher(tag), _HANDLE) if tag.name in _HIDDEN else entry
        for tag, entry in zip(ordered, plain, strict=True)
    ]
    root = _ENTRY.pack(b"tdir", 1, 1023, _ENTRY.size, len(ordered), _ENTRY.size * len(ordered), len(body), 0)
    body += b"".join(entries)
    body[: 6 + len(root)] = b"ABIF" + _VERSION.to_bytes(2, "big") + root
    return bytes(body)


def _encipher(tag: Tag) -> Tag:
    """Return a tag with meaningless bytes of the length that the cipher would give."""
    plain_bytes = len(tag.value) - (tag.kind == _C_STRING)
    padded = (plain_bytes // _BLOCK_BYTES + 1) * _BLOCK_BYTES
    seed = f"{tag.name} {tag.number}".encode() + tag.value
    return Tag(tag.name, tag.number, _ENCIPHERED[tag.kind], hashlib.shake_128(seed).digest(padded))


def _store(body: bytearray, tag: Tag, handle: int = 0) -> bytes:
    """Append a value unless it fits its entry, and return the entry."""
    unit, size = _UNIT_BYTES.get(tag.kind, 1), len(tag.value)
    place = len(body) if size > 4 else int.from_bytes(tag.value.ljust(4, b"\0"), "big")
    if size > 4:
        body += tag.value
    return _ENTRY.pack(tag.name.encode("ascii"), tag.number, tag.kind, unit, size // unit, size, place, handle)
