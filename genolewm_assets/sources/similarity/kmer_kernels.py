"""Compiled loops over 21-mers: their hashes, a hash table of those of held-out sequence, and what a window shares.

Bases A, C, G, T are 0 to 3, any other 4; 8 is added in a repeat. The table has open addressing. A slot has 26 bits of
the place of the 21-mer, two bits that tell whether it is outside repeats, and 4 bits of its hash; an empty one is FREE.
Import inside functions only: numba is slow to load.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from genolewm_assets.edits import compiling
from genolewm_assets.own_caches import compiled

K = 21
OTHER, IN_REPEAT = 4, 8
#: Kinds of 21-mers: with an unknown base, in a repeat, simple outside repeats, and any other outside repeats.
NONE, REPEAT, SIMPLE, UNIQUE = 0, 1, 2, 3
#: 21-mers one after another that a 31-mer has.
LONG = 11
#: Hash of a 21-mer with a base that is not A, C, G or T; no other 21-mer has it in practice.
NO_HASH = np.uint64(0xFFFFFFFFFFFFFFFF)
#: Empty slot of the table, and the number of bases that the places of slots can tell.
FREE, MOST_BASES = np.uint32(0xFFFFFFFF), 1 << 26
#: Hashes that are made at once, and slots that are loaded ahead. Kernels repeat the loop over blocks: a generator of
#: numba never lets go of the arrays given to it.
BLOCK, AHEAD = 1 << 14, 24

_LOW = np.uint64((1 << (2 * K)) - 1)
_TOP = np.uint64(2 * (K - 1))
_FACTORS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_PLACE, _IS_UNIQUE, _IS_OUTSIDE = np.uint32(MOST_BASES - 1), np.uint32(MOST_BASES), np.uint32(2 * MOST_BASES)
_MARK, _MARK_BITS = np.uint32(28), np.uint64(15)
#: Fewest different 3-mers, of 19, of a 21-mer that does not merely repeat a unit of up to four bases.
_LEAST_TRIMERS = 5
#: The same, of 29, for a 31-mer, by which an audit tells simple ones.
_LEAST_LONG_TRIMERS = 12

Codes = npt.NDArray[np.uint8]
Hashes = npt.NDArray[np.uint64]
Slots = npt.NDArray[np.uint32]
Offsets = npt.NDArray[np.int64]

prefetch = compiling.prefetch


@compiled(nogil=True)
def hash_kmers(codes: Codes, hashes: Hashes) -> None:
    """Write the hash, equal for both strands and of no other 21-mer, of the 21-mer at every base into ``hashes``."""
    forward, backward = np.uint64(0), np.uint64(0)
    run = 0
    hashes[max(0, codes.size - K + 1) : codes.size] = NO_HASH
    for at in range(codes.size):
        base = np.uint64(codes[at] & 3)
        forward = ((forward << np.uint64(2)) | base) & _LOW
        backward = (backward >> np.uint64(2)) | ((np.uint64(3) - base) << _TOP)
        run = 0 if codes[at] & OTHER else run + 1
        if run >= K:
            mixed = min(forward, backward) * _FACTORS[0]
            mixed = (mixed ^ (mixed >> np.uint64(31))) * _FACTORS[1]
            hashes[at - K + 1] = mixed ^ (mixed >> np.uint64(29))
        elif at >= K - 1:
            hashes[at - K + 1] = NO_HASH


@compiled(nogil=True)
def find_kinds(codes: Codes, kinds: Codes) -> None:
    """Write the kind of the 21-mer that begins at every base into ``kinds``."""
    after_repeat = after_other = 0
    kinds[:] = NONE
    for at in range(codes.size):
        if codes[at] & IN_REPEAT:
            after_repeat = at + 1
        if codes[at] & OTHER:
            after_other = at + 1
        start = at - K + 1
        if start >= after_other:
            kinds[start] = REPEAT
            if after_repeat <= start:
                kinds[start] = SIMPLE if _is_simple(codes[start : at + 1]) else UNIQUE


@compiled(nogil=True)
def _is_simple(kmer: Codes) -> bool:
    return not _has_trimers(kmer, _LEAST_TRIMERS)


@compiled(nogil=True)
def _has_trimers(kmer: Codes, least: int) -> bool:
    """Tell whether a k-mer has so many different 3-mers."""
    seen, n = np.uint64(0), 0
    for at in range(kmer.size - 2):
        trimer = np.uint64((kmer[at] & 3) << 4 | (kmer[at + 1] & 3) << 2 | kmer[at + 2] & 3)
        bit = np.uint64(1) << trimer
        if not seen & bit:
            seen |= bit
            n += 1
    return n >= least


@compiled(nogil=True)
def _first_slot(key: np.uint64, slots: Slots) -> np.int64:
    return np.int64(((key >> np.uint64(32)) * np.uint64(slots.size)) >> np.uint64(32))


@compiled(nogil=True)
def _find_slot(key: np.uint64, codes: Codes, start: int, held: Codes, slots: Slots) -> np.int64:
    """Return the slot of the 21-mer at ``start`` of ``codes``, or the free one where it would be."""
    at, mark = _first_slot(key, slots), np.uint32(key & _MARK_BITS)
    while slots[at] != FREE:
        if slots[at] >> _MARK == mark and _is_equal(codes, start, held, slots[at] & _PLACE):
            break
        at += np.int64(1)
        if at == slots.size:
            at = np.int64(0)
    return at


@compiled(nogil=True)
def _is_equal(codes: Codes, start: int, held: Codes, first: np.uint32) -> bool:
    """Tell whether two 21-mers are equal, or each other's reverse complement."""
    same = other = True
    place = np.int64(first)
    for step in range(K):
        base = codes[start + step] & 3
        same = same and base == held[place + step] & 3
        other = other and base == 3 - (held[place + K - 1 - step] & 3)
        if not (same or other):
            return False
    return True


@compiled(nogil=True)
def add_kmers(held: Codes, kinds: Codes, slots: Slots) -> None:
    """Add the 21-mers of held-out sequence to the table, each with its first place, or the first where it is unique."""
    hashes = np.empty(BLOCK + K, dtype=np.uint64)
    for first in range(0, held.size, BLOCK):
        n = min(BLOCK, held.size - first)
        hash_kmers(held[first : first + n + K - 1], hashes)
        for at in range(n):
            if at + AHEAD < n:
                prefetch(slots, _first_slot(hashes[at + AHEAD], slots))
            start = first + at
            if kinds[start] == NONE:
                continue
            slot = _find_slot(hashes[at], held, start, held, slots)
            if slots[slot] == FREE or (kinds[start] == UNIQUE and not slots[slot] & _IS_UNIQUE):
                unique = _IS_UNIQUE if kinds[start] == UNIQUE else np.uint32(0)
                outside = np.uint32(0) if slots[slot] == FREE else slots[slot] & _IS_OUTSIDE
                slots[slot] = np.uint32(hashes[at] & _MARK_BITS) << _MARK | outside | unique | np.uint32(start)
            if kinds[start] != REPEAT:
                slots[slot] |= _IS_OUTSIDE


@compiled(nogil=True)
def find_shared(
    data: Codes, offsets: Offsets, letters: Codes, hits: Codes, firsts: Offsets, held: Codes, slots: Slots,
    stretch: int, found: npt.NDArray[np.int32], long: Codes, long_at: Offsets,
) -> None:  # fmt: skip
    """Write how many 21-mers each window shares with held-out sequence where they are densest.

    ``data``, ``offsets``: windows one behind another, as ASCII, with the codes ``letters``. ``hits``, ``firsts``: bits
    of the bases at which a 21-mer may be shared, from the first byte of each window on. ``found``, shape (n_windows,
    4): most shared 21-mers outside repeats of one stretch, and the first base in ``held`` of the last of them; most
    shared 21-mers of any kind, and likewise. 0 and -1 without a shared one. ``long``, ``long_at``: bits of the bases at
    which a 31-mer outside repeats is shared, which are set, and the first byte of each window, or -1 for none.
    """
    most = 0
    for row in range(offsets.size - 1):
        most = max(most, offsets[row + 1] - offsets[row])
    codes, hashes = np.empty(most, dtype=np.uint8), np.empty(most, dtype=np.uint64)
    starts, shared = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.uint8)
    for row in range(offsets.size - 1):
        n = offsets[row + 1] - offsets[row]
        for at in range(n):
            codes[at] = letters[data[offsets[row] + at]]
        hash_kmers(codes[:n], hashes)
        n_hits = 0
        for at in range(n - K + 1):
            if hits[firsts[row] + (at >> 3)] >> np.uint8(at & 7) & np.uint8(1):
                starts[n_hits] = at
                n_hits += 1
        _count_shared(codes[:n], hashes, starts[:n_hits], shared, held, slots, stretch, found[row])
        if long_at[row] >= 0:
            _mark_long(starts[:n_hits], shared, long[long_at[row] :])


@compiled(nogil=True)
def _mark_long(starts: Offsets, shared: Codes, long: Codes) -> None:
    """Mark where so many shared 21-mers outside repeats begin one after another as a 31-mer has."""
    run = 0
    for number in range(starts.size):
        follows = number > 0 and starts[number] == starts[number - 1] + 1
        run = (run + 1 if follows else 1) if shared[number] >= SIMPLE else 0
        if run >= LONG:
            at = starts[number] - (LONG - 1)
            long[at >> 3] |= np.uint8(1) << np.uint8(at & 7)


@compiled(nogil=True)
def find_counted(
    data: Codes, offsets: Offsets, letters: Codes, long: Codes, long_at: Offsets, rule: Offsets, share: float,
    counted: npt.NDArray[np.bool_],
) -> None:  # fmt: skip
    """Tell which windows share 31-mers with held-out sequence as an audit counts them.

    ``rule``: 31-mers one after another that are enough, bases of a stretch, places in it that are enough; ``share``:
    share of its 31-mers that is enough with so many places. A 31-mer with few different 3-mers does not count.
    """
    size_31 = K + LONG - 1
    for row in range(offsets.size - 1):
        n = offsets[row + 1] - offsets[row]
        counted[row] = False
        if long_at[row] < 0 or n < size_31:
            continue
        codes = np.empty(n, dtype=np.uint8)
        for at in range(n):
            codes[at] = letters[data[offsets[row] + at]]
        bits = long[long_at[row] :]
        held = np.zeros(n - size_31 + 1, dtype=np.uint8)
        for at in range(held.size):
            if bits[at >> 3] >> np.uint8(at & 7) & np.uint8(1):
                held[at] = _has_trimers(codes[at : at + size_31], _LEAST_LONG_TRIMERS)
        stretch = min(rule[1], n) - size_31 + 1
        run = now = 0
        last, before = -size_31, -1
        for at in range(held.size):
            if at >= stretch:
                now -= held[at - stretch]
            run = run + 1 if held[at] else 0
            now += held[at]
            if held[at]:
                # The last shared 31-mer that does not overlap this one.
                before = last if at - last >= size_31 else before
                last = at
            places = 2 if before >= max(0, at - stretch + 1) else 1
            if run >= rule[0] or (places >= rule[2] and now >= max(2.0, share * stretch)):
                counted[row] = True
                break


@compiled(nogil=True)
def _count_shared(
    codes: Codes, hashes: Hashes, starts: Offsets, shared: Codes, held: Codes, slots: Slots, stretch: int,
    found: npt.NDArray[np.int32],
) -> None:  # fmt: skip
    n_unique, n_any, oldest = 0, 0, 0
    found[0], found[1], found[2], found[3] = 0, -1, 0, -1
    for number in range(starts.size):
        if number + AHEAD < starts.size:
            prefetch(slots, _first_slot(hashes[starts[number + AHEAD]], slots))
        start = starts[number]
        while starts[oldest] <= start - stretch:
            n_any -= shared[oldest] != NONE
            n_unique -= shared[oldest] == UNIQUE
            oldest += 1
        slot = slots[_find_slot(hashes[start], codes, start, held, slots)]
        shared[number] = NONE
        if slot != FREE:
            shared[number] = UNIQUE if slot & _IS_UNIQUE else (SIMPLE if slot & _IS_OUTSIDE else REPEAT)
        n_any += shared[number] != NONE
        n_unique += shared[number] == UNIQUE
        if n_any > found[2]:
            found[2], found[3] = n_any, slot & _PLACE
        if n_unique > found[0]:
            found[0], found[1] = n_unique, slot & _PLACE
