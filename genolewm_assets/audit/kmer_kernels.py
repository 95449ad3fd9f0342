"""Compiled loops over 31-mers: their keys, how often they occur, and where a sequence holds them.

A key is the smaller of the codes of the two strands, mixed so that its leading bits are even. A 31-mer can be of a
table only if its 19-mer of the least key is that of one of the table, and neighbours share it: few keys are looked up.
No function raises. Import this module inside functions only: importing numba is slow.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from genolewm_assets.own_caches import compiled

K = 31
#: Length of the k-mers of which the least of a 31-mer is looked up first.
LEAST_K = 19
#: Key of a 31-mer with a base that is not A, C, G or T, or that is not counted; no mixed key has it in practice.
NO_KEY = np.uint64(0xFFFFFFFFFFFFFFFF)
#: Fewest different 3-mers (of 29) that a 31-mer of ordinary complexity has; random ones have about 23.
_LEAST_TRIMERS = 12
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
#: Its inverse modulo 2**64, by which a key tells its 31-mer.
_INVERSE = np.uint64(pow(0x9E3779B97F4A7C15, -1, 1 << 64))

#: Keys that are looked up at once; keys that are put in order of their first bits before, and these bits.
_AT_ONCE, _ORDERED, _FIRST_BITS = 1 << 10, 1 << 21, 8
_SIX, _LOW_SIX = np.uint64(6), np.uint64(63)

Codes = npt.NDArray[np.uint8]
Keys = npt.NDArray[np.uint64]
Firsts = npt.NDArray[np.int64]
#: A ``held_kmers.KmerTable``, or a ``SievedTable``; that module imports this one.
Table: TypeAlias = Any


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
        keys[at - k + 1] = _mixed(min(forward, backward))


@compiled(nogil=True)
def _mixed(kmer: np.uint64) -> np.uint64:
    key = (kmer ^ (kmer >> np.uint64(29))) * _FACTOR
    return key ^ (key >> np.uint64(32))


@compiled(nogil=True)
def kmer_of(key: np.uint64) -> np.uint64:
    """Return the k-mer, two bits a base, the last base lowest, of which a key is mixed."""
    kmer = (key ^ (key >> np.uint64(32))) * _INVERSE
    return kmer ^ (kmer >> np.uint64(29)) ^ (kmer >> np.uint64(58))


@compiled(nogil=True)
def least_keys(keys: Keys, least: Keys) -> None:
    """Write a key of the least key, by its first 32 bits, among the 19-mers of each 31-mer, which its own key tells."""
    low = (np.uint64(1) << np.uint64(2 * LEAST_K)) - np.uint64(1)
    for row in range(keys.size):
        forward = kmer_of(keys[row])
        backward = np.uint64(0)
        for base in range(K):
            backward = (backward << np.uint64(2)) | (np.uint64(3) - ((forward >> np.uint64(2 * base)) & np.uint64(3)))
        found = NO_KEY
        for at in range(0, 2 * (K - LEAST_K) + 1, 2):
            mine, other = forward >> np.uint64(at), backward >> np.uint64(2 * (K - LEAST_K) - at)
            found = min(found, _mixed(min(mine & low, other & low)))
        least[row] = _mixed(found >> np.uint64(32))


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
def _two_bits(key: np.uint64, shift: np.uint64) -> np.uint64:
    """Return the bits of a key in its word of a filter."""
    return (np.uint64(1) << ((key >> shift) & _LOW_SIX)) | (np.uint64(1) << (key & _LOW_SIX))


@compiled(nogil=True)
def _may_be(key: np.uint64, table: Table) -> bool:
    """Tell by the filter whether a table may have a key."""
    bits = _two_bits(key, table.filter_shift)
    return bool(table.filter_bits[(key >> table.filter_shift) >> _SIX] & bits == bits)


@compiled(nogil=True)
def find_buckets(table: Keys, shift: np.uint64, firsts: Firsts, filter_shift: np.uint64, filter_bits: Keys) -> None:
    """Write where the keys of a sorted table with leading bits 0, 1, ... begin, and behind that its size.

    ``filter_bits``, all 0 at first, receives two bits for each key, in the word that its leading bits name.
    """
    at = 0
    for bucket in range(firsts.size - 1):
        firsts[bucket] = at
        while at < table.size and np.int64(table[at] >> shift) == bucket:
            filter_bits[(table[at] >> filter_shift) >> _SIX] |= _two_bits(table[at], filter_shift)
            at += 1
    firsts[firsts.size - 1] = at


@compiled(nogil=True)
def find_key(key: np.uint64, table: Table) -> int:
    """Return the row of a key in a sorted table, or -1."""
    if not _may_be(key, table):
        return -1
    bucket = np.int64(key >> table.shift)
    for at in range(table.firsts[bucket], table.firsts[bucket + 1]):
        if table.keys[at] >= key:
            return at if table.keys[at] == key else -1
    return -1


@compiled(nogil=True)
def keep_known(keys: Keys, table: Table) -> int:
    """Move the keys that a table has to the front of an array; return their number."""
    n = 0
    for key in keys:
        if find_key(key, table) >= 0:
            keys[n] = key
            n += 1
    return n


@compiled(nogil=True)
def count_keys(keys: Keys, table: Table, counts: npt.NDArray[np.uint8]) -> None:
    """Add to ``counts``, at most 255, how often each key of the table occurs among ``keys``."""
    some, ordered = np.empty(_AT_ONCE, np.uint64), np.empty(min(keys.size, _ORDERED), np.uint64)
    for begin in range(0, keys.size, _ORDERED):
        part = keys[begin : begin + _ORDERED]
        _order(part, ordered)
        for start in range(0, part.size, _AT_ONCE):
            n = 0
            for key in ordered[start : min(part.size, start + _AT_ONCE)]:
                # Without a branch: the processor reads the words of many keys at a time.
                some[n] = key
                n += bool(key != NO_KEY) & _may_be(key, table)
            for key in some[:n]:
                at = find_key(key, table)
                if at >= 0 and counts[at] < 255:
                    counts[at] += 1


@compiled(nogil=True)
def _order(keys: Keys, ordered: Keys) -> None:
    """Write keys by their first bits, so that the words of a filter that are read one after the other are near."""
    ends = np.zeros((1 << _FIRST_BITS) + 1, np.int64)
    for key in keys:
        ends[np.int64(key >> np.uint64(64 - _FIRST_BITS)) + 1] += 1
    for k in range(1 << _FIRST_BITS):
        ends[k + 1] += ends[k]
    for key in keys:
        bits = np.int64(key >> np.uint64(64 - _FIRST_BITS))
        ordered[ends[bits]] = key
        ends[bits] += 1


@compiled(nogil=True)
def held_kmers(codes: Codes, table: Table, keys: Keys, held: npt.NDArray[np.uint8]) -> tuple[int, int]:
    """Write 1 into ``held`` for each 31-mer of a sequence that a sieved table has, else 0.

    ``keys``: room for one of each base. Return how many 31-mers have no unknown base, and how many the table has.
    """
    kmer_keys(codes, False, False, keys, LEAST_K)
    n, unknown, known, n_held = max(0, codes.size - K + 1), -1, 0, 0
    least, others, starts = np.empty(codes.size, np.uint32), np.empty(codes.size, np.uint32), np.empty(n, np.int32)
    for at in range(codes.size - LEAST_K + 1):
        unknown = at if keys[at] == NO_KEY else unknown
        known += at >= K - LEAST_K and unknown < at - K + LEAST_K
        least[at] = keys[at] >> np.uint64(32)
    # The least of 2, 4, 8 and 13 from each on: loops without a branch.
    size = max(0, codes.size - LEAST_K + 1)
    for step in (1, 2, 4, K - LEAST_K - 7):
        for at in range(size - step):
            others[at] = min(least[at], least[at + step])
        least, others, size = others, least, size - step
    n_starts, last = 0, 0
    for at in range(n):
        starts[n_starts] = at
        n_starts += at == 0 or least[at] != least[at - 1]
    n_may = 0
    for row in range(n_starts):
        starts[n_may] = starts[row]
        n_may += _may_be(_mixed(np.uint64(least[starts[row]])), table.least)
    held[:n] = 0
    for row in range(n_may):
        first = last = starts[row]
        if find_key(_mixed(np.uint64(least[first])), table.least) >= 0:
            while last < n and least[last] == least[first]:
                last += 1
            kmer_keys(codes[first : last + K - 1], False, False, keys[first : last + K - 1])
            for at in range(first, last):
                held[at] = keys[at] != NO_KEY and find_key(keys[at], table.kmers) >= 0
                n_held += held[at]
    return known, n_held


@compiled(nogil=True)
def compare_windows(
    codes: Codes, at: Firsts, behind: Codes, behind_at: Firsts, rows: Firsts, table: Table, most: int, found: Firsts
) -> None:
    """Write what some windows, each with the flank behind it, share with held-out sequence.

    ``codes``, ``behind``: bases of all windows and flanks, which begin at ``at`` and ``behind_at``, shape (n + 1,).
    ``found``: int64, shape (n, 7): what ``densest_stretch`` returns in stretches of ``most`` bases at most, the 31-mers
    of the stretch, and whether the window counts as searched.
    """
    longest = 0
    for row in rows:
        longest = max(longest, at[row + 1] - at[row] + behind_at[row + 1] - behind_at[row])
    bases, keys, held = np.empty(longest, np.uint8), np.empty(longest, np.uint64), np.empty(longest, np.uint8)
    for row in rows:
        first, size = at[row], at[row + 1] - at[row]
        n = size + behind_at[row + 1] - behind_at[row]
        bases[:size] = codes[first : first + size]
        bases[size:n] = behind[behind_at[row] : behind_at[row + 1]]
        known, n_held = held_kmers(bases[:n], table, keys[:n], held[:n])
        n_kmers, stretch = max(0, n - K + 1), max(1, min(most, n) - K + 1)
        found[row, :5] = 0
        if n_held:
            total, longest_run, best_start, best, places = densest_stretch(held[:n_kmers], stretch)
            found[row, 0], found[row, 1], found[row, 2], found[row, 3] = total, longest_run, best_start, best
            found[row, 4] = places
        found[row, 5], found[row, 6] = stretch, 2 * known >= n_kmers


@compiled(nogil=True)
def shared_kmers(bases: Codes, spans: npt.NDArray[np.int64], table: Table, shared: npt.NDArray[np.int64]) -> None:
    """Add how many 31-mers of a table stretches of bases have to ``shared``: row, first base, end: (n, 3)."""
    longest = 0
    for at in range(spans.shape[0]):
        longest = max(longest, spans[at, 2] - spans[at, 1])
    keys, held = np.empty(longest, np.uint64), np.empty(longest, np.uint8)
    for at in range(spans.shape[0]):
        size = spans[at, 2] - spans[at, 1]
        _, n = held_kmers(bases[spans[at, 1] : spans[at, 2]], table, keys[:size], held[:size])
        shared[spans[at, 0]] += n


@compiled(nogil=True)
def altered_keys(codes: Codes, start: Firsts, end: Firsts, alts: Codes, alt_at: Firsts, keys: Keys) -> int:
    """Write the keys of the 31-mers that have a base of an allele, or stand where one lost its bases; return how many.

    ``codes``: the contig's; an allele replaces ``[start, end)`` by ``alts[alt_at[n]:alt_at[n + 1]]``. Simple ones are
    left out.
    """
    n = 0
    for row in range(start.size):
        first, last = max(0, start[row] - K + 1), min(codes.size, end[row] + K - 1)
        before, size = start[row] - first, alt_at[row + 1] - alt_at[row]
        bases = np.empty(before + size + max(0, last - end[row]), np.uint8)
        bases[:before] = codes[first : start[row]]
        bases[before : before + size] = alts[alt_at[row] : alt_at[row + 1]]
        bases[before + size :] = codes[end[row] : last]
        kmer_keys(bases, False, True, keys[n : n + bases.size])
        n += bases.size
    return n


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
