"""The table of 31-mers that held-out alleles make, as plain arrays; who fills it: ``held_sequences``."""

from __future__ import annotations

from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

#: Words that this table has at least: a shift by all 64 bits of a key has no meaning.
LEAST_WORDS: Final = 2


class HeldKmers(NamedTuple):
    """The 31-mers that held-out alleles make, as arrays; see ``kmer_kernels``."""

    #: uint64, shape (n,): sorted keys of the 31-mers.
    keys: NDArray[np.uint64]
    #: uint64: word k has two bits of every 16-mer of the 31-mers whose key ``shift`` moves to k.
    seeds: NDArray[np.uint64]
    #: Bits of a key behind those that name a word.
    shift: np.uint64

    @classmethod
    def of(cls, keys: NDArray[np.uint64], seeds: NDArray[np.uint64]) -> Self:
        """Return the table of keys and seeds; the number of words, a power of two, tells the shift."""
        return cls(keys, seeds, np.uint64(64 - (seeds.size.bit_length() - 1)))

    @classmethod
    def none(cls) -> Self:
        """Return the table of no 31-mer."""
        return cls.of(np.zeros(0, dtype=np.uint64), np.zeros(LEAST_WORDS, dtype=np.uint64))
