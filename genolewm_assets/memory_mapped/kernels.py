"""Compiled loops that write the mapped form. Import inside functions only: importing numba is slow."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from genolewm_assets.own_caches import compiled

Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

_FACTOR, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)


@compiled(nogil=True)
def hash_ids(ids: Words, hashes: Words) -> None:
    """Write one number for every identifier, 32 bytes as shape (n, 4), equal for equal ones."""
    for row in range(hashes.size):
        mixed = np.uint64(0)
        for word in range(ids.shape[1]):
            mixed = (mixed ^ ids[row, word]) * _FACTOR
            mixed ^= mixed >> _HALF
        hashes[row] = mixed


@compiled(nogil=True)
def write_first_rows(ids: Words, hashes: Words, order: Integers, first_row: Integers) -> None:
    """Write the first row with the same identifier for every row; ``order``: rows by hash, those of one hash ascend."""
    begin = 0
    for end in range(1, order.size + 1):
        if end < order.size and hashes[order[end]] == hashes[order[begin]]:
            continue
        for here in range(begin, end):
            row = order[here]
            first_row[row] = row
            # Identifiers of one hash are equal but for a chance of 1 in 10**19, so that the first one mostly is.
            for there in range(begin, here):
                same = True
                for word in range(ids.shape[1]):
                    same &= ids[order[there], word] == ids[row, word]
                if same:
                    first_row[row] = first_row[order[there]]
                    break
        begin = end
