"""Canonical rotation and strand of a circular sequence, so that equal circles give equal text."""

from __future__ import annotations

import numpy as np

from genolewm_assets.genome import reverse_complement

#: The 15 symbols in ASCII order. The rank of a symbol has four bits, so that a 64-bit word holds 16 ranks.
_SYMBOLS = b"ABCDGHKMNRSTVWY"
_RANKS = bytes(max(_SYMBOLS.find(byte), 0) for byte in range(256))
_WORD_BASES = 16


def canonical_rotation(sequence: str) -> str:
    """Return the lexicographically least rotation of a circular sequence and of its reverse complement.

    >>> canonical_rotation("TTGA"), canonical_rotation("ATTG"), canonical_rotation("TCAA")
    ('AATC', 'AATC', 'AATC')
    """
    return min(_least_rotation(strand) for strand in (sequence, reverse_complement(sequence)))


def _least_rotation(sequence: str) -> str:
    """Return the lexicographically least rotation of one strand."""
    n = len(sequence)
    ranks = np.frombuffer(sequence.encode("ascii").translate(_RANKS), dtype=np.uint8)
    words = np.resize(ranks, n + _WORD_BASES - 1).astype(np.uint64)
    for width in (1, 2, 4, 8):
        words = words[:-width] << np.uint64(4 * width) | words[width:]
    starts = np.flatnonzero(words == words.min(initial=2**64 - 1))
    for offset in range(_WORD_BASES, n, _WORD_BASES):
        if starts.size < 2:
            break
        following = words[(starts + offset) % n]
        starts = starts[following == following.min()]
    first = int(starts[0]) if n else 0
    return sequence[first:] + sequence[:first]
