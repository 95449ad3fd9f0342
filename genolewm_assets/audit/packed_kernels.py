"""Compiled loops that look for few 31-mers in many packed bases: A 0 to T 3, four in a byte, the first lowest.

Each 31-mer has one 16-mer that begins at a multiple of 16 bases, so that only these are looked up, in a filter of bits.
No function raises, and none tests an index. Import this module inside functions only: importing numba is slow.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from genolewm_assets.audit.kmer_kernels import NO_KEY, K, Keys, Table, find_key, kmer_keys, kmer_of
from genolewm_assets.own_caches import compiled

_SEED = 16
_FACTOR = np.uint32(0x9E3779B1)


@compiled(nogil=True)
def _bit_of(seed: np.uint32, shift: np.uint32) -> np.uint64:
    return np.uint64(np.uint32(seed * _FACTOR) >> shift)


@compiled(nogil=True)
def mark_seeds(keys: Keys, bits: Keys, shift: np.uint32) -> None:
    """Set the bits, all 0 at first, of the 16-mers of the 31-mers with some keys, on both strands."""
    low = np.uint64(0xFFFFFFFF)
    for key in keys:
        kmer = kmer_of(key)
        # The last base of a k-mer is in its lowest bits; packed, the first is.
        forward, backward = np.uint64(0), np.uint64(0)
        for base in range(K):
            code = (kmer >> np.uint64(2 * base)) & np.uint64(3)
            forward = (forward << np.uint64(2)) | code
            backward |= (np.uint64(3) - code) << np.uint64(2 * base)
        for start in range(K - _SEED + 1):
            for strand in (forward, backward):
                bit = _bit_of(np.uint32((strand >> np.uint64(2 * start)) & low), shift)
                bits[bit >> np.uint64(6)] |= np.uint64(1) << (bit & np.uint64(63))


@compiled(nogil=True)
def find_any(
    packed: npt.NDArray[np.uint8],
    first_byte: npt.NDArray[np.int64],
    n_bases: npt.NDArray[np.int64],
    table: Table,
    bits: Keys,
    shift: np.uint32,
    found: npt.NDArray[np.bool_],
) -> None:
    """Tell which rows, each from a byte on, have a 31-mer of a table, whose 16-mers have their bits set."""
    codes, keys = np.empty(2 * K, np.uint8), np.empty(2 * K, np.uint64)
    for row in range(n_bases.size):
        first, n = first_byte[row], n_bases[row]
        for word in range(n // _SEED):
            at = first + 4 * word
            seed = np.uint32(packed[at]) | (np.uint32(packed[at + 1]) << np.uint32(8))
            seed |= (np.uint32(packed[at + 2]) << np.uint32(16)) | (np.uint32(packed[at + 3]) << np.uint32(24))
            bit = _bit_of(seed, shift)
            if (bits[bit >> np.uint64(6)] >> (bit & np.uint64(63))) & np.uint64(1):
                start, end = max(0, _SEED * word - K + _SEED), min(n, _SEED * word + K)
                for base in range(start, end):
                    codes[base - start] = (packed[first + base // 4] >> np.uint8(2 * (base % 4))) & np.uint8(3)
                kmer_keys(codes[: end - start], False, False, keys[: end - start])
                for key in keys[: end - start]:
                    found[row] |= key != NO_KEY and find_key(key, table) >= 0
                if found[row]:
                    break
