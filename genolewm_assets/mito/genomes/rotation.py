"""One spelling for a circle, wherever it was cut and whichever strand it shows."""

from __future__ import annotations

import numpy as np

from genolewm_assets.genome import reverse_complement

#: Fifteen symbols in the order of their ASCII codes: each has a rank of four bits, sixteen of them fill a word.
_SYMBOLS = b"ABCDGHKMNRSTVWY"
_RANKS = bytes(max(_SYMBOLS.find(byte), 0) for byte in range(256))
_WORD_BASES = 16


def canonical_rotation(sequence: str) -> str:
    """Return the least rotation, in the order of text, of a circle and of its reverse complement.

    Parameters
    ----------
    sequence
        One turn: upper case, over the IUPAC alphabet without U.

    Raises
    ------
    SequenceError
        On a symbol outside the IUPAC nucleotide alphabet.

    Examples
    --------
    >>> canonical_rotation("TTGA"), canonical_rotation("ATTG"), canonical_rotation("TCAA")
    ('AATC', 'AATC', 'AATC')

    Notes
    -----
    All starts are compared at once by their next sixteen bases, then those that tie by the sixteen after, and so on.
    Two starts that tie all the way round give the same text.
    """
    return min(_least_rotation(strand) for strand in (sequence, reverse_complement(sequence)))


def _least_rotation(sequence: str) -> str:
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
