"""Compiled loops over bases: packing, and the sampled 15-mers of parts of a genome. Import inside functions only."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from genolewm_assets.own_caches import compiled

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

#: Codes of bases: A, C, G, T are 0 to 3, any other symbol 4.
OTHER = np.uint8(4)
CODES = np.full(256, OTHER, dtype=np.uint8)
_ACGT = tuple(np.uint8(base) for base in b"ACGT")
CODES[list(b"ACGT")] = np.arange(4)

K = 15
#: A 15-mer has 30 bits. It is sampled if its hash of 30 bits is below 2**26, one in 16; the hash is its row.
ROWS = 1 << 26
_BITS = np.uint32((1 << 30) - 1)
#: Odd, so that no two 15-mers have one hash.
_FACTOR = np.uint32(0x9E3779B1)


@compiled(nogil=True)
def upper_case(text: Bytes, out: Bytes) -> bool:
    """Write upper-case text with T for U into ``out``; return whether all of it is ASCII."""
    highest = np.uint8(0)
    for letter in text:
        highest |= letter
    for at in range(text.size):
        letter = text[at]
        is_lower = (letter >= np.uint8(97)) & (letter <= np.uint8(122))
        letter = np.uint8(letter - np.uint8(32)) if is_lower else letter
        out[at] = np.uint8(84) if letter == np.uint8(85) else letter
    return bool(highest < 128)


# Codes and letters are compared, not looked up: such loops become vector instructions, ten times as fast.
@compiled(nogil=True)
def _code(letter: np.uint8) -> np.uint8:
    code = OTHER
    for base in range(4):
        code = np.uint8(base) if letter == _ACGT[base] else code
    return code


@compiled(nogil=True)
def _letter(code: np.uint8) -> np.uint8:
    letter = np.uint8(78)
    for base in range(4):
        letter = _ACGT[base] if code == np.uint8(base) else letter
    return letter


@compiled(nogil=True)
def pack(text: Bytes, out: Bytes) -> None:
    """Write the codes of upper-case bases into ``out``, two bases a byte, the first in its low half."""
    for at in range(text.size // 2):
        out[at] = _code(text[2 * at]) | _code(text[2 * at + 1]) << np.uint8(4)
    if text.size % 2:
        out[text.size // 2] = _code(text[text.size - 1])


@compiled(nogil=True)
def unpack(packed: Bytes, firsts: Numbers, sizes: Numbers, out: Bytes) -> None:
    """Write the letters of stretches, given by first base and size, one after another into ``out``."""
    to = 0
    for row in range(firsts.size):
        first, end = firsts[row], firsts[row] + sizes[row]
        if first % 2 and first < end:
            out[to] = _letter(packed[first >> 1] >> np.uint8(4))
            first, to = first + 1, to + 1
        pairs = packed[first >> 1 : end >> 1]
        letters = out[to : to + 2 * pairs.size]
        for at in range(pairs.size):
            letters[2 * at] = _letter(pairs[at] & np.uint8(15))
            letters[2 * at + 1] = _letter(pairs[at] >> np.uint8(4))
        to += letters.size
        if end % 2 and first < end:
            out[to] = _letter(packed[end >> 1] & np.uint8(15))
            to += 1


@compiled(nogil=True)
def add_part(text: Bytes, codes: Bytes, part: int, held: Bytes) -> None:
    """Mark a part as holding the sampled 15-mers of both strands of a text; ``held``: shape (rows, bytes of a mask)."""
    forward, backward, run = np.uint32(0), np.uint32(0), 0
    byte, bit = part >> 3, np.uint8(1 << (part & 7))
    for at in range(text.size):
        code = np.uint32(codes[text[at]])
        run = 0 if code == OTHER else run + 1
        forward = (forward << np.uint32(2) | code & np.uint32(3)) & _BITS
        backward = backward >> np.uint32(2) | (np.uint32(3) - (code & np.uint32(3))) << np.uint32(28)
        if run >= K:
            for kmer in (forward, backward):
                row = kmer * _FACTOR & _BITS
                if row < ROWS:
                    held[row, byte] |= bit


@compiled(nogil=True)
def count_shared(text: Bytes, codes: Bytes, held: Bytes, counts: Numbers) -> int:
    """Count the sampled 15-mers of a text that each part holds into ``counts``; return how many there are."""
    forward, run, sampled = np.uint32(0), 0, 0
    counts[:] = 0
    for at in range(text.size):
        code = np.uint32(codes[text[at]])
        run = 0 if code == OTHER else run + 1
        forward = (forward << np.uint32(2) | code & np.uint32(3)) & _BITS
        row = forward * _FACTOR & _BITS
        if run < K or row >= ROWS:
            continue
        sampled += 1
        for byte in range(held.shape[1]):
            mask = held[row, byte]
            part = byte * 8
            while mask:
                counts[part] += mask & 1
                mask >>= 1
                part += 1
    return sampled
