"""Tell cheaply that a sequence cannot align to a part of a genome as a whole, from the 15-mers that both hold."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.genome import encode_kmers, encode_sequence, reverse_complement

_LEFT, _RIGHT = 8, 7
#: A 15-mer has 30 bits. It is sampled if its hash of 30 bits is below 2**26, one in 16; the hash is its place.
_RANK_BITS, _TABLE_BITS = 30, 26
#: Odd, so that no two 15-mers have one hash.
_FACTOR = np.uint32(0x9E3779B1)
#: Share of the sampled 15-mers that a sequence has in common with a part that holds it. An alignment of 90 % of the
#: sequence with 95 % matching columns leaves at least 22 % of them whole; chance gives less than 10 %.
_MIN_SHARE = 0.14


class KmerScreen:
    """Sampled 15-mers of both strands of a part of a genome; 64 MiB."""

    def __init__(self) -> None:
        self._held = np.zeros(1 << _TABLE_BITS, dtype=np.bool_)

    def add(self, bases: bytes) -> None:
        """Add a piece of the part, upper-case bases."""
        for strand in (bases, reverse_complement(bases)):
            self._held[_sample(strand)] = True

    def may_hold(self, sequence: bytes) -> bool:
        """Tell whether the part may hold most of a sequence, on either strand."""
        sampled = self._held[_sample(sequence)]
        return int(np.count_nonzero(sampled)) >= _MIN_SHARE * len(sampled)


def _sample(bases: bytes) -> NDArray[np.uint32]:
    """Return the places in the table of the sampled 15-mers: shape (n_sampled,)."""
    codes = encode_sequence(bases)
    left, right = encode_kmers(codes, k=_LEFT), encode_kmers(codes[_LEFT:], k=_RIGHT)
    left = left[: len(right)]
    known = (left >= 0) & (right >= 0)
    ranks = (left[known].astype(np.uint32) << np.uint32(2 * _RIGHT)) | right[known].astype(np.uint32)
    hashes = (ranks * _FACTOR) & np.uint32((1 << _RANK_BITS) - 1)
    return hashes[hashes < (1 << _TABLE_BITS)]
