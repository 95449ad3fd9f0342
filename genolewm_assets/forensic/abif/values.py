"""The element types of ABIF, and values made of their bytes (Applied Biosystems, ABIF file format, 2006)."""

from __future__ import annotations

from datetime import date, time
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from genolewm_assets.errors import AbifError

#: A tag's value: an array if it has several numbers, text for strings, bytes for characters and unknown types.
TagValue: TypeAlias = int | float | bool | bytes | str | date | time | npt.NDArray[np.generic]

_NUMBERS = {1: ">u1", 3: ">u2", 4: ">i2", 5: ">i4", 7: ">f4", 8: ">f8"}
_DATE, _TIME, _BOOL, _PASCAL = 10, 11, 13, 18
#: Type of a string that ends with a zero.
C_STRING = 19
_SIZES = {1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 8, 7: 4, 8: 8, 9: 0, 10: 4, 11: 4, 12: 10, 13: 1, 14: 4, 15: 8, 16: 8}
_SIZES |= {17: 16, 18: 1, 19: 1, 20: 8, 1023: 28, 1024: 0}
#: Bytes of one element by type; 0: any number, -1: no such type. Types from 1024 on are the user's.
ELEMENT_BYTES = np.array([_SIZES.get(kind, -1) for kind in range(1025)], np.int64)


def decode(kind: int, raw: bytes, where: str) -> TagValue:
    """Return the value of a tag of an element type, from all of its big-endian bytes.

    Numbers: a Python number if there is one, else a read-only array in the machine's byte order, shape (n_elements,).
    Strings in Latin-1. Dates, times and truth values as such. Characters (type 2), legacy and unknown types: the bytes.
    ``where`` names the tag for AbifError, raised if the bytes are none of the type.
    """
    if kind in _NUMBERS:
        return _numbers(kind, raw)
    if kind == _PASCAL:
        if raw and raw[0] >= len(raw):
            expected = f"at most {len(raw) - 1}"
            raise AbifError(where, "a string is longer than its tag", expected=expected, got=str(raw[0]))
        return raw[1 : 1 + raw[0]].decode("latin-1") if raw else ""
    if kind == C_STRING:
        return raw.partition(b"\0")[0].decode("latin-1")
    if kind == _BOOL and len(raw) == 1:
        return raw != b"\0"
    if kind in {_DATE, _TIME} and len(raw) == 4:
        return _moment(kind, raw, where)
    return raw


def _numbers(kind: int, raw: bytes) -> int | float | npt.NDArray[np.generic]:
    numbers = np.frombuffer(raw, _NUMBERS[kind])
    if len(numbers) == 1:
        number: int | float = numbers[0].item()
        return number
    native = numbers.astype(numbers.dtype.newbyteorder("="))
    native.setflags(write=False)
    return native


def _moment(kind: int, raw: bytes, where: str) -> date | time:
    try:
        if kind == _DATE:
            return date(int.from_bytes(raw[:2], "big"), raw[2], raw[3])
        return time(raw[0], raw[1], raw[2], raw[3] * 10_000)
    except ValueError as err:
        raise AbifError(where, "is no date or time", got=raw.hex()) from err
