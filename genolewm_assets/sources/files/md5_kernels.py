"""Compiled loop of MD5. Import it inside functions only: importing numba takes half a second."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from genolewm_assets.own_caches import compiled

Words = npt.NDArray[np.uint32]

# RFC 1321, section 3.4: the sines, and where each round reads its words.
_SINES = np.array([int(abs(math.sin(step + 1)) * 2**32) for step in range(64)], np.uint32)
_U = np.uint32


@compiled(nogil=True, inline="always")
def _turned(value: int, by: int) -> np.uint32:
    return _U((_U(value) << _U(by)) | (_U(value) >> _U(32 - by)))


@compiled(nogil=True)
def add_blocks(words: Words, state: Words) -> None:
    """Add whole blocks to an MD5. ``words``: blocks of 16 little-endian words; ``state``: in and out, 4 words."""
    a, b, c, d = state[0], state[1], state[2], state[3]
    for at in range(0, len(words), 16):
        a0, b0, c0, d0 = a, b, c, d
        for i in range(0, 16, 4):
            a = _U(b + _turned(a + (d ^ (b & (c ^ d))) + words[at + i] + _SINES[i], 7))
            d = _U(a + _turned(d + (c ^ (a & (b ^ c))) + words[at + i + 1] + _SINES[i + 1], 12))
            c = _U(d + _turned(c + (b ^ (d & (a ^ b))) + words[at + i + 2] + _SINES[i + 2], 17))
            b = _U(c + _turned(b + (a ^ (c & (d ^ a))) + words[at + i + 3] + _SINES[i + 3], 22))
        for i in range(16, 32, 4):
            a = _U(b + _turned(a + (c ^ (d & (b ^ c))) + words[at + (5 * i + 1) % 16] + _SINES[i], 5))
            d = _U(a + _turned(d + (b ^ (c & (a ^ b))) + words[at + (5 * i + 6) % 16] + _SINES[i + 1], 9))
            c = _U(d + _turned(c + (a ^ (b & (d ^ a))) + words[at + (5 * i + 11) % 16] + _SINES[i + 2], 14))
            b = _U(c + _turned(b + (d ^ (a & (c ^ d))) + words[at + (5 * i) % 16] + _SINES[i + 3], 20))
        for i in range(32, 48, 4):
            a = _U(b + _turned(a + (b ^ c ^ d) + words[at + (3 * i + 5) % 16] + _SINES[i], 4))
            d = _U(a + _turned(d + (a ^ b ^ c) + words[at + (3 * i + 8) % 16] + _SINES[i + 1], 11))
            c = _U(d + _turned(c + (d ^ a ^ b) + words[at + (3 * i + 11) % 16] + _SINES[i + 2], 16))
            b = _U(c + _turned(b + (c ^ d ^ a) + words[at + (3 * i + 14) % 16] + _SINES[i + 3], 23))
        for i in range(48, 64, 4):
            a = _U(b + _turned(a + (c ^ (b | _U(~d))) + words[at + (7 * i) % 16] + _SINES[i], 6))
            d = _U(a + _turned(d + (b ^ (a | _U(~c))) + words[at + (7 * i + 7) % 16] + _SINES[i + 1], 10))
            c = _U(d + _turned(c + (a ^ (d | _U(~b))) + words[at + (7 * i + 14) % 16] + _SINES[i + 2], 15))
            b = _U(c + _turned(b + (d ^ (c | _U(~a))) + words[at + (7 * i + 5) % 16] + _SINES[i + 3], 21))
        a, b, c, d = _U(a + a0), _U(b + b0), _U(c + c0), _U(d + d0)
    state[:] = np.array([a, b, c, d], np.uint32)
