"""The compiled walk along a chain of BGZF blocks. Import it inside functions only: numba takes half a second."""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

# Of a block that has no other extra field than BC: where its size stands, and how long head and tail are.
_SIZE_AT, _HEAD_BYTES, _TAIL_BYTES = 16, 18, 8
_HEAD = np.frombuffer(b"\x1f\x8b\x08\x04\0\0\0\0\0\0\x06\x00BC\x02\x00", np.uint8)
# Time, extra flags and operating system may be anything.
_FIXED = np.array([0, 1, 2, 3, 10, 11, 12, 13, 14, 15])


@numba.njit(nogil=True, cache=True)
def walk_blocks(data: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64], text_bytes: int, last: int) -> int:
    """Find where the usual blocks at the begin of ``data`` end.

    Parameters
    ----------
    ends
        Out; there is room for as many blocks as ``data`` may hold.
    text_bytes
        How much text is enough.
    last
        Where in ``data`` the last block wanted begins, or what comes after all of it.

    Returns
    -------
    int
        Number of blocks; negative, and one less, if enough were found or the last one wanted was.
    """
    at, text, blocks = 0, 0, 0
    while at + _HEAD_BYTES + _TAIL_BYTES <= len(data):
        for place in _FIXED:
            if data[at + place] != _HEAD[place]:
                return blocks
        end = at + (data[at + _SIZE_AT] | data[at + _SIZE_AT + 1] << 8) + 1
        if end > len(data) or end < at + _HEAD_BYTES + _TAIL_BYTES:
            return blocks
        ends[blocks] = end
        blocks += 1
        text += data[end - 4] | data[end - 3] << 8 | data[end - 2] << 16 | data[end - 1] << 24
        if text >= text_bytes or at >= last:
            return -blocks - 1
        at = end
    return blocks
