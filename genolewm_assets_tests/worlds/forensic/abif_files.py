"""Writes ABIF files: plain ones, and ones that are scrambled as the software of the ABI 3500 does it."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

_ENTRY = struct.Struct(">4sIHHIIII")
_HEADER_BYTES, _SCRAMBLED_HANDLE = 128, 0x50000
_UNITS = {1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 7: 4, 8: 8, 10: 4, 11: 4, 13: 1, 18: 1, 19: 1, 1024: 1}
#: Types that the scrambled directory writes, by true type.
_SCRAMBLED = {2: 30, 4: 28, 5: 31, 8: 32, 18: 34, 19: 33}


@dataclass(frozen=True)
class TagBytes:
    """One tag: name, number, element type and the big-endian bytes of its value."""

    name: str
    number: int
    kind: int
    value: bytes


def numbers(name: str, number: int, kind: int, values: npt.ArrayLike) -> TagBytes:
    code = {1: ">u1", 3: ">u2", 4: ">i2", 5: ">i4", 7: ">f4", 8: ">f8"}[kind]
    return TagBytes(name, number, kind, np.atleast_1d(np.asarray(values)).astype(code).tobytes())


def pascal(name: str, number: int, text: str) -> TagBytes:
    return TagBytes(name, number, 18, bytes([len(text)]) + text.encode("latin-1"))


def c_string(name: str, number: int, text: str) -> TagBytes:
    return TagBytes(name, number, 19, text.encode("latin-1") + b"\0")


def write_abif(
    tags: Iterable[TagBytes], *, scrambled: bool = False, version: int = 101, before: bytes = b"", between: bytes = b""
) -> bytes:
    """Return the bytes of a file.

    A scrambled file has the plain values and a directory of them, which nothing points to; then enciphered copies of
    traces, dyes and long values, and the directory that the header points to. ``before`` follows the header,
    ``between`` the plain directory of a scrambled file.
    """
    ordered = sorted(tags, key=lambda tag: (tag.name, tag.number))
    body = bytearray(_HEADER_BYTES) + before
    plain = [_store(body, tag) for tag in ordered]
    at = len(body)
    body += b"".join(plain)
    if scrambled:
        body += bytes(56) + between
        draw = random.Random(len(body))
        entries = [
            _store(body, _encipher(tag, draw), _SCRAMBLED_HANDLE) if _is_hidden(tag) else entry
            for tag, entry in zip(ordered, plain, strict=True)
        ]
        at = len(body)
        body += b"".join(entries) + bytes(56)
    root = _ENTRY.pack(b"tdir", 1, 1023, 28, len(ordered), 28 * len(ordered), at, 0)
    body[: 6 + len(root)] = b"ABIF" + version.to_bytes(2, "big") + root
    return bytes(body)


def _is_hidden(tag: TagBytes) -> bool:
    return tag.name in {"DATA", "DyeN", "AsyC", "ScPa", "Satd"} and tag.kind in _SCRAMBLED


def _encipher(tag: TagBytes, draw: random.Random) -> TagBytes:
    padded = ((len(tag.value) - (tag.kind == 19)) // 8 + 1) * 8
    return replace(tag, kind=_SCRAMBLED[tag.kind], value=draw.randbytes(padded))


def _store(body: bytearray, tag: TagBytes, handle: int = 0) -> bytes:
    unit = _UNITS.get(tag.kind, 1)
    size, count = len(tag.value), len(tag.value) // unit
    if size <= 4:
        place = int.from_bytes(tag.value.ljust(4, b"\0"), "big")
    else:
        place = len(body)
        body += tag.value
    return _ENTRY.pack(tag.name.encode(), tag.number, tag.kind, unit, count, size, place, handle)
