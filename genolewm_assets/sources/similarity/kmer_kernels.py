"""Compiled loops over 21-mers: their hashes, a hash table of those of held-out sequence, and what a window shares.

Bases A, C, G, T are 0 to 3, any other 4; 8 is added in a repeat. The table has open addressing, and a slot for each
21-mer outside repeats of each span: 26 bits of its place, a bit that tells whether it is not simple, and 5 bits of its
hash; an empty one is FREE. Import inside functions only: numba is slow to load.
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
_PLACE, _IS_UNIQUE = np.uint32(MOST_BASES - 1), np.uint32(MOST_BASES)
_MARK, _MARK_BITS = np.uint32(27), np.uint64(31)
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
def mark_sampled(hashes: Hashes, sampled: Codes) -> None:
    """Mark the 21-mer of the least hash of every so many, one after another, as a 31-mer has: one in six.

    Every 31-mer has a marked one; which are marked depends on the window alone.
    """
    sampled[: hashes.size] = 0
    least = -1
    for last in range(LONG - 1, hashes.size):
        if least <= last - LONG:
            least = last
            for at in range(last - LONG + 1, last):
                if hashes[at] < hashes[least]:
                    least = at
        elif hashes[last] < hashes[least]:
            least = last
        if hashes[least] != NO_HASH:
            sampled[least] = 1


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
            if n >= least:
                return True
    return False


@compiled(nogil=True)
def _first_slot(key: np.uint64, slots: Slots) -> np.int64:
    return np.int64(((key >> np.uint64(32)) * np.uint64(slots.size)) >> np.uint64(32))


@compiled(nogil=True)
def _after(slot: np.int64, slots: Slots) -> np.int64:
    return np.int64(0) if slot + np.int64(1) == slots.size else slot + np.int64(1)


@compiled(nogil=True)
def _is_at(slot: np.uint32, key: np.uint64, codes: Codes, start: int, held: Codes) -> bool:
    """Tell whether a slot has the 21-mer at ``start`` of ``codes``."""
    return slot >> _MARK == np.uint32(key & _MARK_BITS) and _is_equal(codes, start, held, slot & _PLACE)


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
def add_kmers(held: Codes, kinds: Codes, firsts: Offsets, slots: Slots) -> None:
    """Add the 21-mers outside repeats of each span of held-out sequence; ``firsts``: the first base of each span.

    Each has the first place where it is not simple, or the first of all.
    """
    hashes, span = np.empty(BLOCK + K, dtype=np.uint64), 0
    for first in range(0, held.size, BLOCK):
        n = min(BLOCK, held.size - first)
        hash_kmers(held[first : first + n + K - 1], hashes)
        for at in range(n):
            if at + AHEAD < n:
                prefetch(slots, _first_slot(hashes[at + AHEAD], slots))
            start = first + at
            if kinds[start] < SIMPLE:
                continue
            while span + 1 < firsts.size and start >= firsts[span + 1]:
                span += 1
            slot = _first_slot(hashes[at], slots)
            while slots[slot] != FREE and not (
                np.int64(slots[slot] & _PLACE) >= firsts[span] and _is_at(slots[slot], hashes[at], held, start, held)
            ):
                slot = _after(slot, slots)
            if slots[slot] == FREE or (kinds[start] == UNIQUE and not slots[slot] & _IS_UNIQUE):
                unique = _IS_UNIQUE if kinds[start] == UNIQUE else np.uint32(0)
                slots[slot] = np.uint32(hashes[at] & _MARK_BITS) << _MARK | unique | np.uint32(start)


@compiled(nogil=True)
def find_pairs(
    data: Codes, offsets: Offsets, letters: Codes, hits: Codes, hit_firsts: Offsets, held: Codes, firsts: Offsets,
    slots: Slots, stretch: int, least: int,
) -> tuple[Offsets, Offsets]:  # fmt: skip
    """Return what each window shares with each span of held-out sequence, outside repeats.

    ``data``, ``offsets``: windows one behind another, as ASCII, with the codes ``letters``. ``hits``, ``hit_firsts``:
    bits of the bases at which a 21-mer may be shared, from the first byte of each window on. ``firsts``: the first base
    of each span. ``least``: fewest sampled 21-mers of one stretch with which a pair is returned.

    Returns
    -------
    pairs, runs
        Pairs of a window and a span that share enough, or a 31-mer, by window: int64, shape (n_pairs, 6): window, span,
        most shared 21-mers, not counting simple ones, of one stretch, the place in ``held`` of the last of them, most
        of them that are sampled, and where the pair's runs end in ``runs``: int64, shape (n_runs, 2): where shared
        31-mers that are not simple begin one after another, and how many.
    """
    longest = 1
    for row in range(offsets.size - 1):
        longest = max(longest, offsets[row + 1] - offsets[row])
    codes, hashes, sampled = np.empty(longest, np.uint8), np.empty(longest, np.uint64), np.empty(longest, np.uint8)
    # Of shared 21-mers: where they begin, and the next one of the same span; and their slots.
    shared, found = np.empty((longest, 2), np.int64), np.empty(longest, np.uint32)
    first_of, last_of, met = np.full(firsts.size, -1), np.full(firsts.size, -1), np.empty(firsts.size, np.int64)
    pairs, n_pairs, runs, n_runs = np.empty((64, 6), np.int64), 0, np.empty((64, 2), np.int64), 0
    for row in range(offsets.size - 1):
        n = offsets[row + 1] - offsets[row]
        for at in range(n):
            codes[at] = letters[data[offsets[row] + at]]
        hash_kmers(codes[:n], hashes)
        mark_sampled(hashes[: max(0, n - K + 1)], sampled)
        n_shared = n_met = 0
        for at in range(n - K + 1):
            if not hits[hit_firsts[row] + (at >> 3)] >> np.uint8(at & 7) & np.uint8(1):
                continue
            slot = _first_slot(hashes[at], slots)
            while slots[slot] != FREE:
                if _is_at(slots[slot], hashes[at], codes, at, held):
                    if n_shared == found.size:
                        shared, found = _grown(shared), np.append(found, found)
                    span = np.searchsorted(firsts, np.int64(slots[slot] & _PLACE), side="right") - 1
                    if first_of[span] < 0:
                        first_of[span], met[n_met] = n_shared, span
                        n_met += 1
                    else:
                        shared[last_of[span], 1] = n_shared
                    shared[n_shared, 0], shared[n_shared, 1], found[n_shared] = at, -1, slots[slot]
                    last_of[span] = n_shared
                    n_shared += 1
                slot = _after(slot, slots)
        for span in met[:n_met]:
            most, place, n_sampled = _find_densest(shared, found, first_of[span], stretch, sampled)
            before = n_runs
            runs, n_runs = _add_runs(shared, first_of[span], codes[:n], runs, n_runs)
            first_of[span] = -1
            if n_sampled >= least or n_runs > before:
                pairs = _grown(pairs) if n_pairs == pairs.shape[0] else pairs
                pairs[n_pairs, 0], pairs[n_pairs, 1], pairs[n_pairs, 2] = row, span, most
                pairs[n_pairs, 3], pairs[n_pairs, 4], pairs[n_pairs, 5] = place, n_sampled, n_runs
                n_pairs += 1
    return pairs[:n_pairs], runs[:n_runs]


@compiled(nogil=True)
def _grown(rows: Offsets) -> Offsets:
    """Return a copy with room for twice as many rows."""
    more = np.empty((2 * rows.shape[0], rows.shape[1]), np.int64)
    more[: rows.shape[0]] = rows
    return more


@compiled(nogil=True)
def _find_densest(shared: Offsets, slots: Slots, first: int, stretch: int, sampled: Codes) -> tuple[int, np.int64, int]:
    """Return most shared 21-mers of one stretch, without simple ones; the last one's place; most that are sampled.

    Without such 21-mers: 0, the place of a simple one, and 0.
    """
    most = now = most_sampled = now_sampled = 0
    number = oldest = first
    place = np.int64(slots[first] & _PLACE)
    while number >= 0:
        while shared[oldest, 0] <= shared[number, 0] - stretch:
            if slots[oldest] & _IS_UNIQUE:
                now -= 1
                now_sampled -= sampled[shared[oldest, 0]]
            oldest = shared[oldest, 1]
        if slots[number] & _IS_UNIQUE:
            now += 1
            now_sampled += sampled[shared[number, 0]]
        most_sampled = max(most_sampled, now_sampled)
        if now > most:
            most, place = now, np.int64(slots[number] & _PLACE)
        number = shared[number, 1]
    return most, place, most_sampled


@compiled(nogil=True)
def _add_runs(shared: Offsets, first: int, codes: Codes, runs: Offsets, n_runs: int) -> tuple[Offsets, int]:
    """Add where so many 21-mers are shared one after another as a 31-mer has, unless it has few different 3-mers."""
    size, before = K + LONG - 1, n_runs
    run, last, number = 0, np.int64(-2), first
    while number >= 0:
        run = run + 1 if shared[number, 0] == last + 1 else 1
        last = shared[number, 0]
        start = last - (LONG - 1)
        if run >= LONG and _has_trimers(codes[start : start + size], _LEAST_LONG_TRIMERS):
            if n_runs > before and runs[n_runs - 1, 0] + runs[n_runs - 1, 1] == start:
                runs[n_runs - 1, 1] += 1
            else:
                if n_runs == runs.shape[0]:
                    runs = _grown(runs)
                runs[n_runs, 0], runs[n_runs, 1] = start, 1
                n_runs += 1
        number = shared[number, 1]
    return runs, n_runs


@compiled(nogil=True)
def find_counted(
    sizes: Offsets, ends: Offsets, runs: Offsets, rule: Offsets, share: float, counted: npt.NDArray[np.bool_]
) -> None:
    """Tell which windows share 31-mers with held-out sequence as an audit counts them.

    ``sizes``: bases of each window. ``ends``, ``runs``: where each window's runs end, and the runs of all, as those of
    :func:`find_pairs`, in any order within a window. ``rule``: 31-mers one after another that are enough, bases of a
    stretch, places in it that are enough; ``share``: share of its 31-mers that is enough with so many places.
    """
    size_31, first = K + LONG - 1, np.int64(0)
    for row in range(sizes.size):
        counted[row] = False
        held = np.zeros(max(0, sizes[row] - size_31 + 1), dtype=np.uint8)
        for number in range(first, ends[row]):
            held[runs[number, 0] : runs[number, 0] + runs[number, 1]] = 1
        stretch = min(rule[1], sizes[row]) - size_31 + 1
        run = now = 0
        last, before = -size_31, -1
        for at in range(held.size if ends[row] > first else 0):
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
        first = ends[row]
