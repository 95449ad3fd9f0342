"""Compiled loops over a filter of the 21-mers of all held-out sequence, counts of 21-mers, and few 21-mers in windows.

The filter is a Bloom filter in lines of 512 bits, one load from memory each: four bits of a line tell that a 21-mer is
held out, five more that it is so outside repeats. It has no false negatives. Few 21-mers are looked for in packed
bases, A 0 to T 3, four in a byte, the first lowest. Import inside functions only.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from genolewm_assets.own_caches import compiled
from genolewm_assets.sources.similarity.kmer_kernels import (
    AHEAD,
    BLOCK,
    IN_REPEAT,
    LONG,
    NO_HASH,
    NONE,
    REPEAT,
    SIMPLE,
    Codes,
    Hashes,
    K,
    Offsets,
    hash_kmers,
    mark_sampled,
    prefetch,
)

#: 64-bit words of a line.
LINE = 8
_ODD = np.uint64(0x9E3779B97F4A7C15)
_HALF, _NINE = np.uint64(32), np.uint64(9)
_N_ANY, _N_OUTSIDE = 4, 5
#: Bases of a seed, and from one to the next in a window: each 21-mer has one of them.
_SEED, _APART = 14, 8
_FACTOR = np.uint32(0x9E3779B1)


@compiled(nogil=True)
def _line(key: np.uint64, words: Hashes) -> np.uint64:
    """Return the first word of the line of a hash."""
    return (((key >> _HALF) * np.uint64(words.size // LINE)) >> _HALF) * np.uint64(LINE)


@compiled(nogil=True)
def _bit(bits: np.uint64, line: np.uint64, words: Hashes) -> np.uint64:
    """Return, as the lowest bit, that bit of a line which the lowest nine of ``bits`` name."""
    return np.uint64(words[line + (bits >> np.uint64(6) & np.uint64(LINE - 1))] >> (bits & np.uint64(63)))


@compiled(nogil=True)
def _set(bits: np.uint64, n: int, line: np.uint64, words: Hashes) -> None:
    for _ in range(n):
        words[line + (bits >> np.uint64(6) & np.uint64(LINE - 1))] |= np.uint64(1) << (bits & np.uint64(63))
        bits >>= _NINE


@compiled(nogil=True)
def _kind(key: np.uint64, words: Hashes) -> int:
    """Return NONE, REPEAT or SIMPLE: whether a 21-mer may be held out, and whether it may be so outside repeats."""
    line = _line(key, words)
    # Without a branch by bit, which no processor could foretell.
    first_two = _bit(key, line, words) & _bit(key >> _NINE, line, words)
    last_two = _bit(key >> np.uint64(18), line, words) & _bit(key >> np.uint64(27), line, words)
    if not first_two & last_two & np.uint64(1) or key == NO_HASH:
        return NONE
    bits = (key * _ODD) >> np.uint64(19)
    for _ in range(_N_OUTSIDE):
        if not _bit(bits, line, words) & np.uint64(1):
            return REPEAT
        bits >>= _NINE
    return SIMPLE


@compiled(nogil=True)
def add_to_filter(codes: Codes, kinds: Codes, words: Hashes) -> None:
    """Add the 21-mers of held-out sequence, with their kinds."""
    hashes = np.empty(BLOCK + K, dtype=np.uint64)
    for first in range(0, codes.size, BLOCK):
        n = min(BLOCK, codes.size - first)
        hash_kmers(codes[first : first + n + K - 1], hashes)
        for at in range(n):
            if at + AHEAD < n:
                prefetch(words, _line(hashes[at + AHEAD], words))
            if kinds[first + at] != NONE:
                line = _line(hashes[at], words)
                _set(hashes[at], _N_ANY, line, words)
                if kinds[first + at] >= SIMPLE:
                    _set((hashes[at] * _ODD) >> np.uint64(19), _N_OUTSIDE, line, words)


@compiled(nogil=True)
def screen(
    data: Codes, offsets: Offsets, letters: Codes, words: Hashes, stretch: int, least: int, hits: Codes,
    firsts: Offsets, most: npt.NDArray[np.int32],
) -> None:  # fmt: skip
    """Count the sampled 21-mers of each window that may be held out where they are densest.

    ``data``, ``offsets``, ``letters``, ``hits`` (zeros) and ``firsts`` are those of ``kmer_kernels.find_pairs``; the
    hits of windows that share enough are marked. ``least``: sampled 21-mers outside repeats of a stretch that are.
    ``most``, shape (n_windows, 3): most sampled 21-mers of one stretch outside repeats, and of any kind; and whether
    the window may share a 31-mer outside repeats.
    """
    longest = 0
    for row in range(offsets.size - 1):
        longest = max(longest, offsets[row + 1] - offsets[row])
    codes, hashes = np.empty(longest, dtype=np.uint8), np.empty(longest, dtype=np.uint64)
    sampled, starts = np.empty(longest, dtype=np.uint8), np.empty(longest, dtype=np.int64)
    kinds = np.empty(longest, dtype=np.uint8)
    for row in range(offsets.size - 1):
        n = offsets[row + 1] - offsets[row]
        for at in range(n):
            codes[at] = letters[data[offsets[row] + at]]
        hash_kmers(codes[:n], hashes)
        mark_sampled(hashes[: max(0, n - K + 1)], sampled)
        n_sampled = 0
        for at in range(n - K + 1):
            starts[n_sampled] = at
            n_sampled += sampled[at]
        n_outside = n_any = oldest = 0
        most[row, :] = 0
        for number in range(n_sampled):
            if number + AHEAD < n_sampled:
                prefetch(words, _line(hashes[starts[number + AHEAD]], words))
            at = starts[number]
            while starts[oldest] <= at - stretch:
                n_any -= kinds[oldest] != NONE
                n_outside -= kinds[oldest] == SIMPLE
                oldest += 1
            kinds[number] = _kind(hashes[at], words)
            n_any += kinds[number] != NONE
            n_outside += kinds[number] == SIMPLE
            most[row, 0], most[row, 1] = max(most[row, 0], n_outside), max(most[row, 1], n_any)
            if kinds[number] == SIMPLE and not most[row, 2]:
                most[row, 2] = _is_long(hashes[: n - K + 1], at, words)
        if most[row, 0] >= least or most[row, 2]:
            for at in range(n - K + 1):
                if at + AHEAD < n:
                    prefetch(words, _line(hashes[at + AHEAD], words))
                if _kind(hashes[at], words) == SIMPLE:
                    hits[firsts[row] + (at >> 3)] |= np.uint8(1) << np.uint8(at & 7)


@compiled(nogil=True)
def _is_long(hashes: Hashes, at: int, words: Hashes) -> bool:
    """Tell whether a 21-mer outside repeats is one of so many, one after another, as a 31-mer has."""
    run, other = 1, at + 1
    while run < LONG and other < hashes.size and _kind(hashes[other], words) == SIMPLE:
        run, other = run + 1, other + 1
    other = at - 1
    while run < LONG and other >= 0 and _kind(hashes[other], words) == SIMPLE:
        run, other = run + 1, other - 1
    return run >= LONG


@compiled(nogil=True)
def _counter(key: np.uint64, counts: Codes) -> np.int64:
    return np.int64((((key * _ODD) >> _HALF) * np.uint64(counts.size)) >> _HALF)


@compiled(nogil=True)
def count_roughly(codes: Codes, words: Hashes, counts: Codes) -> None:
    """Count the 21-mers of the genome that the filter has, at most 255 each; a counter may count several."""
    hashes = np.empty(BLOCK + K, dtype=np.uint64)
    for first in range(0, codes.size, BLOCK):
        n = min(BLOCK, codes.size - first)
        hash_kmers(codes[first : first + n + K - 1], hashes)
        for at in range(n):
            if at + AHEAD < n:
                prefetch(words, _line(hashes[at + AHEAD], words))
            if _kind(hashes[at], words) != NONE:
                counter = _counter(hashes[at], counts)
                counts[counter] += counts[counter] < 255


@compiled(nogil=True)
def list_frequent(codes: Codes, counts: Codes, most: int, frequent: Hashes) -> int:
    """List hashes of 21-mers that are counted more than ``most`` times; return their number."""
    hashes = np.empty(BLOCK + K, dtype=np.uint64)
    n_found = 0
    for first in range(0, codes.size, BLOCK):
        n = min(BLOCK, codes.size - first)
        hash_kmers(codes[first : first + n + K - 1], hashes)
        for at in range(n):
            if hashes[at] != NO_HASH and counts[_counter(hashes[at], counts)] > most:
                frequent[n_found] = hashes[at]
                n_found += 1
    return n_found


@compiled(nogil=True)
def _place(key: np.uint64, keys: Hashes) -> np.int64:
    """Return the place of a hash in a table with open addressing, or the free one where it would be."""
    at = np.int64(((key >> _HALF) * np.uint64(keys.size)) >> _HALF)
    while keys[at] != NO_HASH and keys[at] != key:
        at += np.int64(1)
        if at == keys.size:
            at = np.int64(0)
    return at


@compiled(nogil=True)
def add_keys(hashes: Hashes, keys: Hashes) -> None:
    """Add hashes to a table that has room for them."""
    for key in hashes:
        keys[_place(key, keys)] = key


@compiled(nogil=True)
def count_keys(codes: Codes, keys: Hashes, counts: Codes) -> None:
    """Count how often the genome has the 21-mers of a table, at most 255 each."""
    hashes = np.empty(codes.size, dtype=np.uint64)
    hash_kmers(codes, hashes)
    for key in hashes:
        if key != NO_HASH:
            at = _place(key, keys)
            counts[at] += keys[at] == key and counts[at] < 255


@compiled(nogil=True)
def mark_repeats(codes: Codes, keys: Hashes, spread_bp: int) -> None:
    """Mark the bases of every 21-mer of a table, and those near it, as in a repeat, in place."""
    hashes = np.empty(BLOCK + K, dtype=np.uint64)
    marked = 0
    for first in range(0, codes.size, BLOCK):
        n = min(BLOCK, codes.size - first)
        hash_kmers(codes[first : first + n + K - 1], hashes)
        for at in range(n):
            if hashes[at] != NO_HASH and keys[_place(hashes[at], keys)] == hashes[at]:
                end = min(codes.size, first + at + K + spread_bp)
                for base in range(max(marked, first + at - spread_bp), end):
                    codes[base] |= IN_REPEAT
                marked = end


@compiled(nogil=True)
def _bit_of(seed: np.uint32, shift: np.uint32) -> np.uint64:
    return np.uint64(np.uint32(seed * _FACTOR) >> shift)


@compiled(nogil=True)
def mark_seeds(codes: Codes, kinds: Codes, bits: Hashes, shift: np.uint32) -> None:
    """Set the bits, all 0 at first, of the seeds in 21-mers outside repeats, on both strands."""
    for at in range(codes.size - K + 1):
        if kinds[at] >= SIMPLE:
            for start in range(at, at + K - _SEED + 1):
                forward, backward = np.uint32(0), np.uint32(0)
                for step in range(_SEED):
                    base = np.uint32(codes[start + step] & 3)
                    forward |= base << np.uint32(2 * step)
                    backward |= (np.uint32(3) - base) << np.uint32(2 * (_SEED - 1 - step))
                for seed in (forward, backward):
                    bit = _bit_of(np.uint32(seed), shift)
                    bits[bit >> np.uint64(6)] |= np.uint64(1) << (bit & np.uint64(63))


@compiled(nogil=True)
def find_any(
    packed: Codes, first: Offsets, n_bases: Offsets, keys: Hashes, bits: Hashes, shift: np.uint32,
    found: npt.NDArray[np.bool_],
) -> None:  # fmt: skip
    """Tell which windows, each from byte ``first`` on, have a 21-mer of a table, whose seeds have their bits set."""
    for row in range(n_bases.size):
        own = packed[first[row] : first[row] + (n_bases[row] + 3) // 4]
        for number in range((n_bases[row] - _SEED) // _APART + 1):
            at = number * _APART // 4
            seed = np.uint32(own[at]) | np.uint32(own[at + 1]) << np.uint32(8)
            seed |= np.uint32(own[at + 2]) << np.uint32(16) | np.uint32(own[at + 3] & 15) << np.uint32(24)
            bit = _bit_of(np.uint32(seed), shift)
            if (bits[bit >> np.uint64(6)] >> (bit & np.uint64(63))) & np.uint64(1):
                start, end = max(0, number * _APART + _SEED - K), min(n_bases[row], number * _APART + K)
                if _has_any(own, start, end, keys):
                    found[row] = True
                    break


@compiled(nogil=True)
def _has_any(own: Codes, start: int, end: int, keys: Hashes) -> bool:
    """Tell whether packed bases ``[start, end)``, fewer than 42, have a 21-mer of a table."""
    codes, hashes = np.empty(2 * K, np.uint8), np.empty(2 * K, np.uint64)
    for base in range(start, end):
        codes[base - start] = (own[base // 4] >> np.uint8(2 * (base % 4))) & np.uint8(3)
    hash_kmers(codes[: end - start], hashes)
    found = False
    for key in hashes[: max(0, end - start - K + 1)]:
        found |= keys[_place(key, keys)] == key
    return found
