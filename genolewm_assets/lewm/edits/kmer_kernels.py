"""Compiled loops over the 31-mers that alleles make. Import inside functions only: importing numba is slow.

A key stands for a 31-mer and its reverse complement. Text is ASCII; a 31-mer with a byte other than A, C, G and T has
no key. No function raises, whatever the text contains.
"""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

#: Bases of a k-mer.
K = 31

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int32]
Keys = npt.NDArray[np.uint64]

#: Code of every byte: A 0, C 1, G 2, T 3, any other 4. A look-up is faster than branches that cannot be predicted.
_CODES = np.full(256, 4, dtype=np.uint64)
_CODES[np.frombuffer(b"ACGT", dtype=np.uint8)] = np.arange(4)

_TOP = np.uint64(2 * (K - 1))
_MASK = np.uint64((1 << 2 * K) - 1)
_FACTOR, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(31)


@numba.njit(nogil=True, cache=True)
def _mix(kmer: np.uint64) -> np.uint64:
    """Return a different number for every 31-mer, with even leading bits."""
    return (kmer ^ (kmer >> _HALF)) * _FACTOR


@numba.njit(nogil=True, cache=True)
def write_keys(text: Bytes, keys: Keys) -> int:
    """Write the key of every 31-mer of a text, from left to right, and return their number.

    ``keys`` is uint64 and has room for ``len(text) - 30``.
    """
    forward, backward, run, n = np.uint64(0), np.uint64(0), 0, 0
    for letter in text:
        code = _CODES[letter]
        if code > 3:
            run = 0
            continue
        forward = ((forward << np.uint64(2)) | code) & _MASK
        backward = (backward >> np.uint64(2)) | ((np.uint64(3) - code) << _TOP)
        run += 1
        if run >= K:
            keys[n] = _mix(min(forward, backward))
            n += 1
    return n


@numba.njit(nogil=True, cache=True)
def write_new_keys(alt_at: Offsets, alt_text: Bytes, ref_at: Offsets, ref_text: Bytes, keys: Keys) -> int:
    """Write the keys of the 31-mers that haplotypes have and their reference lacks; return their number.

    Parameters
    ----------
    alt_at, alt_text
        Haplotypes in Arrow's memory layout: the text of row i is ``alt_text[alt_at[i]:alt_at[i + 1]]``.
    ref_at, ref_text
        The reference of each row.
    keys
        uint64, room for the bytes of ``alt_text``.
    """
    n, longest = 0, 1
    for row in range(ref_at.size - 1):
        longest = max(longest, ref_at[row + 1] - ref_at[row])
    known = np.empty(longest, dtype=np.uint64)
    for row in range(alt_at.size - 1):
        n_known = write_keys(ref_text[ref_at[row] : ref_at[row + 1]], known)
        there = np.sort(known[:n_known])
        n_made = write_keys(alt_text[alt_at[row] : alt_at[row + 1]], keys[n:])
        kept = n
        for at in range(n, n + n_made):
            found = np.searchsorted(there, keys[at])
            if found == there.size or there[found] != keys[at]:
                keys[kept] = keys[at]
                kept += 1
        n = kept
    return n


@numba.njit(nogil=True, cache=True)
def keep_different(keys: Keys) -> int:
    """Move the different keys of a sorted array to its front; return their number."""
    n = 0
    for at in range(keys.size):
        if n == 0 or keys[at] != keys[n - 1]:
            keys[n] = keys[at]
            n += 1
    return n


@numba.njit(nogil=True, cache=True)
def write_bits(keys: Keys, shift: np.uint64, bits: Bytes) -> None:
    """Set the bit of the leading bits of each key; a key has ``shift`` bits behind these, ``bits`` begins with 0."""
    for key in keys:
        at = key >> shift
        bits[np.int64(at >> np.uint64(3))] |= np.uint8(1) << np.uint8(at & np.uint64(7))


@numba.njit(nogil=True, cache=True)
def has_key(text: Bytes, keys: Keys, shift: np.uint64, bits: Bytes) -> bool:
    """Tell whether a 31-mer of a text has one of some sorted keys, for which :func:`write_bits` filled ``bits``."""
    if text.size < K:
        return False
    own = np.empty(text.size - K + 1, dtype=np.uint64)
    for key in own[: write_keys(text, own)]:
        at = key >> shift
        # Few of the 31-mers get past this line, which reads one byte.
        if bits[np.int64(at >> np.uint64(3))] >> np.uint8(at & np.uint64(7)) & np.uint8(1):
            found = np.searchsorted(keys, key)
            if found < keys.size and keys[found] == key:
                return True
    return False


@numba.njit(nogil=True, cache=True)
def has_key_of_codes(codes: Bytes, keys: Keys, shift: np.uint64, bits: Bytes) -> bool:
    """Tell the same of bases that are given as codes, A 0 to T 3, without room of its own."""
    forward, backward = np.uint64(0), np.uint64(0)
    for at in range(codes.size):
        code = np.uint64(codes[at])
        forward = ((forward << np.uint64(2)) | code) & _MASK
        backward = (backward >> np.uint64(2)) | ((np.uint64(3) - code) << _TOP)
        if at < K - 1:
            continue
        key = _mix(min(forward, backward))
        place = key >> shift
        if bits[np.int64(place >> np.uint64(3))] >> np.uint8(place & np.uint64(7)) & np.uint8(1):
            found = np.searchsorted(keys, key)
            if found < keys.size and keys[found] == key:
                return True
    return False
