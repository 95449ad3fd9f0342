"""Compiled loops over the bases of windows. Import inside functions only: importing numba is slow."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from genolewm_assets.own_caches import compiled

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]

#: Code of every byte: A 0, C 1, G 2, T 3, any other 4.
_CODES = np.full(256, 4, dtype=np.uint8)
_CODES[np.frombuffer(b"ACGT", dtype=np.uint8)] = np.arange(4)


@compiled(nogil=True)
def pack_rows(at: Integers, text: Bytes, first: Integers, packed: Bytes) -> int:
    """Pack texts of upper-case ACGT, four bases per byte, the first base in the lowest bits, unused bits 0.

    Text i, ``text[at[i]:at[i + 1]]``, begins at byte ``first[i]`` of ``packed``. Returns the number of the first text
    with another symbol; -1 if there is none.
    """
    for row in range(first.size):
        own, worst = text[at[row] : at[row + 1]], np.uint8(0)
        whole = own.size >> 2
        bytes_ = packed[first[row] : first[row] + whole]
        for k in range(bytes_.size):
            a, b, c, d = _CODES[own[4 * k]], _CODES[own[4 * k + 1]], _CODES[own[4 * k + 2]], _CODES[own[4 * k + 3]]
            worst |= a | b | c | d
            bytes_[k] = a | (b << np.uint8(2)) | (c << np.uint8(4)) | (d << np.uint8(6))
        if 4 * whole < own.size:
            last = np.uint8(0)
            for k in range(4 * whole, own.size):
                code = _CODES[own[k]]
                worst |= code
                last |= code << np.uint8(2 * (k - 4 * whole))
            packed[first[row] + whole] = last
        if worst > 3:
            return row
    return -1
