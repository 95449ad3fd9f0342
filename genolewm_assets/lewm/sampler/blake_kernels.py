"""Compiled keyed random numbers: those of ``lewm.edits.draws``, bit for bit.

A *stream* is a row of an array of words, uint64, shape (n_streams, STREAM_WORDS): the state of keyed BLAKE2b (RFC 7693)
behind its key block, the eight words of the block read, the number of blocks made, the number of words used. Import
this module inside functions only: importing numba is slow.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from genolewm_assets.lewm.edits import kernel

Words: TypeAlias = npt.NDArray[np.uint64]
Streams: TypeAlias = npt.NDArray[np.uint64]
Bytes: TypeAlias = npt.NDArray[np.uint8]

#: Words of one stream, and places of its parts.
STREAM_WORDS = 18
_BLOCK, _USED = 16, 17
_STATE, _READ = slice(0, 8), slice(8, 16)
#: Bytes of a message block, of a key digest and of a block of random words.
BLOCK_BYTES, KEY_BYTES, _DRAWN_BYTES = np.int64(128), np.int64(32), np.int64(64)
# Typed values, as those above: a kernel is compiled once more for every literal that it is called with.
_ZERO, _FALSE, _TRUE = np.int64(0), np.bool_(False), np.bool_(True)

_IV = np.array(
    [
        0x6A09E667F3BCC908,
        0xBB67AE8584CAA73B,
        0x3C6EF372FE94F82B,
        0xA54FF53A5F1D36F1,
        0x510E527FADE682D1,
        0x9B05688C2B3E6C1F,
        0x1F83D9ABFB41BD6B,
        0x5BE0CD19137E2179,
    ],
    dtype=np.uint64,
)
#: Order of the message words in each of the 12 rounds (RFC 7693 section 2.7; rounds 10 and 11 repeat 0 and 1).
_SIGMA = np.array(
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
        [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
        [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
        [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
        [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
        [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
        [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
        [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
        [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    ],
    dtype=np.uint8,
)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_LOW, _HALF, _MANTISSA_SHIFT = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(11)
_R1, _R2, _R3, _R4 = np.uint64(32), np.uint64(24), np.uint64(16), np.uint64(63)
_L1, _L2, _L3, _L4 = np.uint64(32), np.uint64(40), np.uint64(48), np.uint64(1)
#: First parameter word: fanout 1, depth 1; digest size in bits 0 to 7, key size in bits 8 to 15.
_FANOUT_DEPTH = np.uint64(0x01010000)


@kernel
def _mix(
    a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64, x: np.uint64, y: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Return the four words of a column or diagonal after the mixing function G; uint64 each."""
    a = a + b + x
    d ^= a
    d = (d >> _R1) | (d << _L1)
    c = c + d
    b ^= c
    b = (b >> _R2) | (b << _L2)
    a = a + b + y
    d ^= a
    d = (d >> _R3) | (d << _L3)
    c = c + d
    b ^= c
    b = (b >> _R4) | (b << _L4)
    return a, b, c, d


@kernel
def compress(state: Words, message: Words, n_bytes: int, is_last: bool) -> None:
    """Mix a message block, uint64 of shape (16,), into a state, uint64 of shape (8,), in place.

    ``n_bytes`` counts the bytes hashed so far, with those of this block (less than 2**64).
    """
    m, s = message, _SIGMA
    a0, a1, a2, a3, b0, b1, b2, b3 = (
        state[0], state[1], state[2], state[3], state[4], state[5], state[6], state[7],
    )  # fmt: skip
    c0, c1, c2, c3 = _IV[0], _IV[1], _IV[2], _IV[3]
    d0, d1, d2, d3 = _IV[4] ^ np.uint64(n_bytes), _IV[5], _IV[6], _IV[7]
    if is_last:
        d2 ^= _ALL
    for r in range(12):
        a0, b0, c0, d0 = _mix(a0, b0, c0, d0, m[s[r, 0]], m[s[r, 1]])
        a1, b1, c1, d1 = _mix(a1, b1, c1, d1, m[s[r, 2]], m[s[r, 3]])
        a2, b2, c2, d2 = _mix(a2, b2, c2, d2, m[s[r, 4]], m[s[r, 5]])
        a3, b3, c3, d3 = _mix(a3, b3, c3, d3, m[s[r, 6]], m[s[r, 7]])
        a0, b1, c2, d3 = _mix(a0, b1, c2, d3, m[s[r, 8]], m[s[r, 9]])
        a1, b2, c3, d0 = _mix(a1, b2, c3, d0, m[s[r, 10]], m[s[r, 11]])
        a2, b3, c0, d1 = _mix(a2, b3, c0, d1, m[s[r, 12]], m[s[r, 13]])
        a3, b0, c1, d2 = _mix(a3, b0, c1, d2, m[s[r, 14]], m[s[r, 15]])
    state[0] ^= a0 ^ c0
    state[1] ^= a1 ^ c1
    state[2] ^= a2 ^ c2
    state[3] ^= a3 ^ c3
    state[4] ^= b0 ^ d0
    state[5] ^= b1 ^ d1
    state[6] ^= b2 ^ d2
    state[7] ^= b3 ^ d3


@kernel
def _load(message: Words, text: Bytes, start: int, end: int) -> None:
    """Fill a message block with ``text[start:end]``, at most 128 bytes, little-endian, and zeros."""
    for k in range(16):
        message[k] = 0
    for at in range(start, end):
        place = at - start
        message[place >> 3] |= np.uint64(text[at]) << np.uint64(8 * (place & 7))


@kernel
def _begin(state: Words, digest_bytes: int, key_bytes: int) -> None:
    """Set a state to that of BLAKE2b before its first block."""
    for k in range(8):
        state[k] = _IV[k]
    state[0] ^= _FANOUT_DEPTH ^ np.uint64((key_bytes << 8) | digest_bytes)


@kernel
def hash_root(text: Bytes, size: int, digest: Words, message: Words) -> None:
    """Write BLAKE2b without a key of ``text[:size]`` to ``digest[:4]``: ``DrawKey.of``.

    ``digest`` is uint64 of shape (8,), of which the last four words are overwritten too; ``message`` is room, (16,).
    """
    _begin(digest, KEY_BYTES, _ZERO)
    at = _ZERO
    while size - at > BLOCK_BYTES:
        _load(message, text, at, at + BLOCK_BYTES)
        at += BLOCK_BYTES
        compress(digest, message, at, _FALSE)
    _load(message, text, at, size)
    compress(digest, message, size, _TRUE)


@kernel
def absorb_key(state: Words, digest: Words, digest_bytes: int, message: Words) -> None:
    """Set a state to that of keyed BLAKE2b behind its key block; the key is ``digest[:4]``."""
    _begin(state, digest_bytes, KEY_BYTES)
    for k in range(16):
        message[k] = digest[k] if k < 4 else np.uint64(0)
    compress(state, message, BLOCK_BYTES, _FALSE)


@kernel
def start_child(
    streams: Streams, at: int, parent: Words, text: Bytes, size: int, digest: Words, message: Words
) -> None:
    """Set stream ``at`` to ``key.child(part).draws()``.

    Parameters
    ----------
    parent
        State of the key behind :func:`absorb_key`, with ``digest_bytes`` 32: uint64, shape (8,).
    text, size
        The parts as ``DrawKey.child`` hashes them: ``text[:size]``, at most 128 bytes.
    digest, message
        Room: uint64, shapes (8,) and (16,).
    """
    for k in range(8):
        digest[k] = parent[k]
    _load(message, text, _ZERO, size)
    compress(digest, message, BLOCK_BYTES + size, _TRUE)
    absorb_key(streams[at, _STATE], digest, _DRAWN_BYTES, message)
    streams[at, _BLOCK] = 0
    streams[at, _USED] = 8


@kernel
def word(streams: Streams, at: int, message: Words) -> np.uint64:
    """Return the next 64 random bits of a stream."""
    used = streams[at, _USED]
    if used == 8:
        for k in range(8):
            streams[at, 8 + k] = streams[at, k]
        for k in range(16):
            message[k] = 0
        message[0] = streams[at, _BLOCK]
        compress(streams[at, _READ], message, BLOCK_BYTES + 8, _TRUE)
        streams[at, _BLOCK] += np.uint64(1)
        used = np.uint64(0)
    streams[at, _USED] = used + np.uint64(1)
    return streams[at, np.uint64(8) + used]


@kernel
def below(streams: Streams, at: int, n: int, message: Words) -> int:
    """Return a uniform number from 0 to n - 1, for n from 1 to 2**63 - 1: the upper half of the product of 128 bits."""
    bits, most = word(streams, at, message), np.uint64(n)
    high, low = bits >> _HALF, bits & _LOW
    most_high, most_low = most >> _HALF, most & _LOW
    middle = high * most_low + (low * most_low >> _HALF)
    other = low * most_high + (middle & _LOW)
    return np.int64(high * most_high + (middle >> _HALF) + (other >> _HALF))


@kernel
def uniform(streams: Streams, at: int, message: Words) -> float:
    """Return a uniform number in [0, 1), a multiple of 2**-53."""
    return np.float64(word(streams, at, message) >> _MANTISSA_SHIFT) * 2.0**-53


@kernel
def take_permuted(streams: Streams, at: int, order: npt.NDArray[np.int64], left: int, message: Words) -> int:
    """Return the next number of ``TrainDraws.permuted``.

    ``order`` is int64 and begins as 0, 1, 2 ..., of which the first ``left`` entries (at least 1) are not yet taken.
    """
    place = below(streams, at, left, message)
    taken = order[place]
    order[place] = order[left - 1]
    return taken


@kernel
def write_text_part(text: Bytes, at: int, tag: Bytes, value: Bytes, size: int) -> int:
    """Write a part of a key, ``tag`` and ``value[:size]``, with its length, and return the index behind it.

    ``tag`` is ``int:`` or ``str:``; ``text`` has room for the ``8 + size`` bytes.
    """
    length = 4 + size
    for k in range(4):
        text[at + k] = np.uint8((length >> (8 * k)) & 255)
        text[at + 4 + k] = tag[k]
    for k in range(size):
        text[at + 8 + k] = value[k]
    return at + 8 + size


@kernel
def write_int_part(text: Bytes, at: int, value: int) -> int:
    """Write an integer part of a key, from 0 to 2**63 - 1, and return the index behind it; it takes up to 27 bytes."""
    digits, left = 1, value // 10
    while left > 0:
        digits += 1
        left //= 10
    length = 4 + digits
    text[at], text[at + 1], text[at + 2], text[at + 3] = length, 0, 0, 0
    text[at + 4], text[at + 5], text[at + 6], text[at + 7] = 105, 110, 116, 58  # int:
    left = value
    for k in range(digits):
        text[at + 7 + digits - k] = 48 + left % 10
        left //= 10
    return at + 8 + digits
