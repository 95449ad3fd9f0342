"""Compiled loops over 31-mers: their keys, how often they occur, and where a sequence holds them.

A key is the smaller of the codes of the two strands, mixed so that its leading bits are even. No function raises.
Import this module inside functions only: importing numba is slow.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from genolewm_assets.own_caches import compiled

K = 31
#: Key of a 31-mer with a base that is not A, C, G or T, or that is not counted; no mixed key has it in practice.
NO_KEY = np.uint64(0xFFFFFFFFFFFFFFFF)
#: Fewest different 3-mers (of 29) that a 31-mer of ordinary complexity has; random ones have about 23.
_LEAST_TRIMERS = 12
_FACTOR = np.uint64(0x9E3779B97F4A7C15)

Keys = npt.NDArray[np.uint64]


@compiled(nogil=True)
def kmer_keys(codes: npt.NDArray[np.uint8], skip_masked: bool, skip_simple: bool, keys: Keys, k: int = K) -> None:
    """Write the key of the k-mer that begins at every base into ``keys``, shape (n_bases,); simple ones are 31-mers."""
    low, top = (np.uint64(1) << np.uint64(2 * k)) - np.uint64(1), np.uint64(2 * (k - 1))
    forward, backward = np.uint64(0), np.uint64(0)
    run = 0
    keys[:] = NO_KEY
    for at in range(codes.size):
        code = codes[at]
        base = np.uint64(code & 3)
        if code & 4 or (skip_masked and code & 8):
            run = 0
            continue
        forward = ((forward << np.uint64(2)) | base) & low
        backward = (backward >> np.uint64(2)) | ((np.uint64(3) - base) << top)
        run += 1
        if run < k or (skip_simple and _is_simple(forward)):
            continue
        key = min(forward, backward)
        key = (key ^ (key >> np.uint64(29))) * _FACTOR
        keys[at - k + 1] = key ^ (key >> np.uint64(32))


@compiled(nogil=True)
def _is_simple(kmer: np.uint64) -> bool:
    seen, n = np.uint64(0), 0
    for shift in range(0, 2 * (K - 2), 2):
        bit = np.uint64(1) << ((kmer >> np.uint64(shift)) & np.uint64(63))
        if not seen & bit:
            seen |= bit
            n += 1
    return n < _LEAST_TRIMERS


@compiled(nogil=True)
def keep_different(keys: Keys) -> int:
    """Move the different keys of a sorted array to its front, without NO_KEY; return their number."""
    n = 0
    for at in range(keys.size):
        if keys[at] != NO_KEY and (n == 0 or keys[at] != keys[n - 1]):
            keys[n] = keys[at]
            n += 1
    return n


@compiled(nogil=True)
def find_buckets(table: Keys, shift: np.uint64, firsts: npt.NDArray[np.int64]) -> None:
    """Write where the keys of a sorted table with leading bits 0, 1, ... begin, and behind that its size."""
    at = 0
    for bucket in range(firsts.size - 1):
        firsts[bucket] = at
        while at < table.size and np.int64(table[at] >> shift) == bucket:
            at += 1
    firsts[firsts.size - 1] = at


@compiled(nogil=True)
def _find(key: np.uint64, table: Keys, firsts: npt.NDArray[np.int64], shift: np.uint64) -> int:
    bucket = np.int64(key >> shift)
    for at in range(firsts[bucket], firsts[bucket + 1]):
        if table[at] >= key:
            return at if table[at] == key else -1
    return -1


@compiled(nogil=True)
def count_keys(
    keys: Keys, table: Keys, firsts: npt.NDArray[np.int64], shift: np.uint64, counts: npt.NDArray[np.uint8]
) -> None:
    """Add to ``counts``, at most 255, how often each key of the sorted ``table`` occurs among ``keys``."""
    for key in keys:
        if key != NO_KEY:
            at = _find(key, table, firsts, shift)
            if at >= 0 and counts[at] < 255:
                counts[at] += 1


@compiled(nogil=True)
def held_kmers(
    keys: Keys, table: Keys, firsts: npt.NDArray[np.int64], shift: np.uint64, held: npt.NDArray[np.uint8]
) -> None:
    """Write 1 into ``held`` where the sorted ``table`` has the key, else 0."""
    for at in range(keys.size):
        held[at] = keys[at] != NO_KEY and _find(keys[at], table, firsts, shift) >= 0


@compiled(nogil=True)
def densest_stretch(held: npt.NDArray[np.uint8], size: int) -> tuple[int, int, int, int, int]:
    """Return what a sequence shares with held-out sequence."""
    total = longest = run = best = best_start = now = 0
    last, before_place, best_places = -K, -1, 0
    for at in range(held.size):
        run = run + 1 if held[at] else 0
        longest = max(longest, run)
        total += held[at]
        now += held[at]
        if at >= size:
            now -= held[at - size]
        if held[at]:
            # The shared 31-mer before the newest place tells whether the stretch has a second one.
            before_place = last if at - last >= K else before_place
            last = at
        of_two = 1 if before_place >= max(0, at - size + 1) else 0
        if of_two > best_places or (of_two == best_places and now > best):
            best_places, best, best_start = of_two, now, max(0, at - size + 1)
    places, last = 0, -K
    for at in range(best_start, min(held.size, best_start + size)):
        if held[at]:
            places += at - last >= K
            last = at
    return total, longest, best_start, best, places
