"""Compiled loops over records and windows of the corpus. Import inside functions only: numba is slow to load."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from genolewm_assets.own_caches import compiled

_C, _G = np.uint8(ord("C")), np.uint8(ord("G"))
_MIX = np.uint64(0x9E3779B97F4A7C15)


@compiled(nogil=True)
def count_gc(text: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> None:
    """Write how many G and C each text has; texts follow one another, and ``ends`` are their ends."""
    at = 0
    for row in range(ends.size):
        found = 0
        for letter in text[at : ends[row]]:
            found += (letter == _G) | (letter == _C)
        counts[row] = found
        at = ends[row]


@compiled(nogil=True)
def add_key(keys: npt.NDArray[np.uint64], key: np.uint64) -> bool:
    """Add a key other than 0 to an open table, a power of two long; return whether it was there."""
    slot = (key * _MIX) >> np.uint64(20)
    while True:
        slot &= np.uint64(keys.size - 1)
        if keys[slot] == key:
            return True
        if keys[slot] == 0:
            keys[slot] = key
            return False
        slot += np.uint64(1)


@compiled(nogil=True)
def move_keys(keys: npt.NDArray[np.uint64], into: npt.NDArray[np.uint64]) -> None:
    """Add all keys of a table to another one."""
    for key in keys:
        if key != 0:
            add_key(into, key)
