"""Compiled loop that finds BGZF blocks. Import it inside functions only: importing numba takes half a second."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from genolewm_assets.own_caches import compiled

# A block whose only extra field is BC: offset of its size, and lengths of header and trailer, in bytes.
_SIZE_AT, _HEAD_BYTES, _TAIL_BYTES = 16, 18, 8
_HEAD = np.frombuffer(b"\x1f\x8b\x08\x04\0\0\0\0\0\0\x06\x00BC\x02\x00", np.uint8)
# Header bytes that are compared; time, extra flags and operating system (bytes 4 to 9) may have any value.
_FIXED = np.array([0, 1, 2, 3, 10, 11, 12, 13, 14, 15])


@compiled(nogil=True)
def walk_blocks(data: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64], text_bytes: int, last: int) -> int:
    """Write the ends of the ``n`` usual blocks at the start of ``data`` into ``ends``; return ``n``, or ``-n - 1``.

    It stops at the first block with an extra field other than BC, and negative after ``text_bytes`` of text or the
    block at ``last``. ``ends``: int64, shape (at least ``len(data) // 26 + 1``,).
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
