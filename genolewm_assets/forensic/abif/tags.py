"""The tags of an ABIF file as a mapping whose values are made when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from genolewm_assets.errors import AbifError
from genolewm_assets.forensic.abif.directory import (
    INLINE_AT,
    INLINE_BYTES,
    Entries,
    is_scrambled,
    tag_keys,
    tag_label,
)
from genolewm_assets.forensic.abif.values import ELEMENT_BYTES, TagValue, decode

_Value = TypeVar("_Value", int, float, str, bytes)


class AbifTags(Mapping[tuple[str, int], TagValue]):
    """Tags of one file by name and number, such as ``tags["DATA", 1]``, made anew from its bytes for each access."""

    def __init__(self, data: bytes, entries: Entries, where: str) -> None:
        self._data, self._entries, self._where = data, entries, where
        keys = tag_keys(entries)
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]

    def __repr__(self) -> str:
        return f"AbifTags({len(self)} tags)"

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[tuple[str, int]]:
        for key in self._keys.tolist():
            yield (key >> 32).to_bytes(4, "big").decode("latin-1"), key & 0xFFFFFFFF

    def __contains__(self, key: object) -> bool:
        return self._row(key) is not None

    def __getitem__(self, key: tuple[str, int]) -> TagValue:
        """Return a value as :func:`decode` makes it; AbifError if it is damaged, or scrambled without plaintext."""
        row = self._row(key)
        if row is None:
            raise KeyError(key)
        return self._decode(row)

    def _decode(self, row: int) -> TagValue:
        entry = self._entries[row]
        _, _, kind, element, count, size, offset, _ = entry.item()
        unit = int(ELEMENT_BYTES[min(kind, len(ELEMENT_BYTES) - 1)])
        label = f"{self._where} tag {tag_label(entry)}"
        if is_scrambled(entry):
            raise AbifError(label, "is scrambled, and the plaintext directory lacks it")
        if unit > 0 and (size != unit * count or element != unit):
            expected = f"{count:,} elements of {unit} bytes"
            raise AbifError(label, "its length is none of its type", expected=expected, got=f"{size:,} bytes")
        stored, start = (entry.tobytes(), INLINE_AT) if size <= INLINE_BYTES else (self._data, offset)
        return decode(kind, stored[start : start + size], label)

    def find(self, name: str, number: int, kind: type[_Value]) -> _Value | None:
        """Return a value if the file has it readable and of the kind, with text of characters as ``str``; else None."""
        row = self._row((name, number))
        if row is None or is_scrambled(self._entries[row]):
            return None
        value = self._decode(row)
        if kind is str and isinstance(value, bytes):
            value = value.decode("latin-1")
        return value if isinstance(value, kind) and not isinstance(value, bool) else None

    def trace(self, number: int) -> npt.NDArray[np.int16] | None:
        """Return the trace ``DATA`` of a number, int16, shape (n_scans,), read-only; None if the file lacks it."""
        row = self._row(("DATA", number))
        if row is None:
            return None
        value = self._decode(row)
        if not isinstance(value, np.ndarray) or value.dtype != np.int16:
            raise AbifError(f"{self._where} tag DATA {number}", "is no trace", expected="16-bit numbers")
        return value.astype(np.int16, copy=False)

    def integers(self, name: str, number: int) -> npt.NDArray[np.int32]:
        """Return a tag of 32-bit numbers, shape (n_elements,); empty if the file lacks it or it holds anything else."""
        value = self.get((name, number))
        if isinstance(value, int) and not isinstance(value, bool):
            return np.array([value], np.int64).astype(np.int32)
        if isinstance(value, np.ndarray) and value.dtype == np.int32:
            return value.astype(np.int32, copy=False)
        return np.empty(0, np.int32)

    def _row(self, key: object) -> int | None:
        match key:
            case (str() as name, int() as number) if len(name) == 4 and max(name) <= "\xff" and 0 <= number < 1 << 32:
                code = np.uint64((int.from_bytes(name.encode("latin-1"), "big") << 32) | number)
                at = int(self._keys.searchsorted(code))
                return int(self._order[at]) if at < len(self._keys) and self._keys[at] == code else None
        return None
