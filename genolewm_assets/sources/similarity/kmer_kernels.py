"""Compiled loops over 21-mers: a hash table of those of held-out sequence, and what a sequence shares with it.

Bases A, C, G, T are 0 to 3, any other 4; 8 is added in a repeat. The table has open addressing: 32 bits of the hash
(``marks``), first base (``places``), repeat or not (``kinds``). Import inside functions only: numba is slow to load.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from genolewm_assets.own_caches import compiled

K = 21
OTHER, IN_REPEAT = 4, 8
#: Kinds of entries of the table.
FREE, REPEAT, UNIQUE = 0, 1, 2
#: Hash of a 21-mer with a base that is not A, C, G or T; no other 21-mer has it in practice.
NO_HASH = np.uint64(0xFFFFFFFFFFFFFFFF)

_LOW = np.uint64((1 << (2 * K)) - 1)
_TOP = np.uint64(2 * (K - 1))
_FACTORS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
#: Fewest different 3-mers, of 19, of a 21-mer that does not merely repeat a unit of up to four bases.
_LEAST_TRIMERS = 5

Codes = npt.NDArray[np.uint8]
Hashes = npt.NDArray[np.uint64]
Marks = npt.NDArray[np.uint32]
Places = npt.NDArray[np.uint32]


@compiled(nogil=True)
def hash_kmers(codes: Codes, hashes: Hashes) -> None:
    """Write the hash, equal for both strands, of the 21-mer that begins at every base into ``hashes``."""
    forward, backward = np.uint64(0), np.uint64(0)
    run = 0
    hashes[:] = NO_HASH
    for at in range(codes.size):
        base = np.uint64(codes[at] & 3)
        forward = ((forward << np.uint64(2)) | base) & _LOW
        backward = (backward >> np.uint64(2)) | ((np.uint64(3) - base) << _TOP)
        run = 0 if codes[at] & OTHER else run + 1
        if run >= K:
            mixed = min(forward, backward) * _FACTORS[0]
            mixed = (mixed ^ (mixed >> np.uint64(31))) * _FACTORS[1]
            hashes[at - K + 1] = mixed ^ (mixed >> np.uint64(29))


@compiled(nogil=True)
def _slot(key: np.uint64, marks: Marks, kinds: Codes) -> np.uint64:
    """Return the entry of a 21-mer, or the free one where it would be."""
    low = np.uint64(marks.size - 1)
    mark, slot = np.uint32(key >> np.uint64(32)), key & low
    while kinds[slot] != FREE and marks[slot] != mark:
        slot = (slot + np.uint64(1)) & low
    return slot


@compiled(nogil=True)
def add_kmers(codes: Codes, hashes: Hashes, marks: Marks, places: Places, kinds: Codes) -> int:
    """Add the 21-mers of held-out sequence to the table; return how many different ones there are.

    A 21-mer that occurs both in a repeat and outside counts as outside; a simple one counts as in a repeat.
    """
    added, after_repeat = 0, 0
    for at in range(codes.size):
        if codes[at] & IN_REPEAT:
            after_repeat = at + 1
        start = at - K + 1
        if start < 0 or hashes[start] == NO_HASH:
            continue
        kind = UNIQUE if after_repeat <= start and not _is_simple(codes[start : at + 1]) else REPEAT
        slot = _slot(hashes[start], marks, kinds)
        if kinds[slot] == FREE:
            marks[slot] = np.uint32(hashes[start] >> np.uint64(32))
            added += 1
        if kinds[slot] < kind:
            places[slot], kinds[slot] = start, kind
    return added


@compiled(nogil=True)
def _is_simple(kmer: Codes) -> bool:
    seen, n = np.uint64(0), 0
    for at in range(K - 2):
        trimer = np.uint64((kmer[at] & 3) << 4 | (kmer[at + 1] & 3) << 2 | kmer[at + 2] & 3)
        bit = np.uint64(1) << trimer
        if not seen & bit:
            seen |= bit
            n += 1
    return n < _LEAST_TRIMERS


@compiled(nogil=True)
def count_kmers(hashes: Hashes, marks: Marks, kinds: Codes, counts: Codes) -> None:
    """Add to ``counts``, at most 255, how often each 21-mer of the table occurs among ``hashes``."""
    for key in hashes:
        if key != NO_HASH:
            slot = _slot(key, marks, kinds)
            if kinds[slot] != FREE and counts[slot] < 255:
                counts[slot] += 1


@compiled(nogil=True)
def mark_repeats(
    codes: Codes, hashes: Hashes, marks: Marks, kinds: Codes, counts: Codes, most: int, spread_bp: int
) -> None:
    """Mark the bases of every 21-mer that is counted more than ``most`` times, and those near it, in place."""
    marked = 0
    for start in range(codes.size - K + 1):
        if hashes[start] != NO_HASH and counts[_slot(hashes[start], marks, kinds)] > most:
            end = min(codes.size, start + K + spread_bp)
            for at in range(max(marked, start - spread_bp), end):
                codes[at] |= IN_REPEAT
            marked = end


@compiled(nogil=True)
def find_shared(
    codes: Codes, hashes: Hashes, held: Codes, marks: Marks, places: Places, kinds: Codes, stretch: int
) -> tuple[int, int, int, int]:
    """Return how many 21-mers a sequence shares with held-out sequence where they are densest.

    Result: most shared 21-mers outside repeats of one stretch, and the first base in ``held`` of the last of them; most
    shared 21-mers of any kind, and likewise. 0 and -1 without a shared one.
    """
    found = np.zeros(max(0, codes.size - K + 1), dtype=np.uint8)
    n_unique, n_any = 0, 0
    unique, unique_place, most, place = 0, -1, 0, -1
    for start in range(found.size):
        if start >= stretch:
            n_any -= found[start - stretch] != FREE
            n_unique -= found[start - stretch] == UNIQUE
        if hashes[start] == NO_HASH:
            continue
        slot = _slot(hashes[start], marks, kinds)
        if kinds[slot] == FREE or not _is_equal(codes, start, held, int(places[slot])):
            continue
        found[start] = kinds[slot]
        n_any += 1
        n_unique += kinds[slot] == UNIQUE
        if n_any > most:
            most, place = n_any, int(places[slot])
        if n_unique > unique:
            unique, unique_place = n_unique, int(places[slot])
    return unique, unique_place, most, place


@compiled(nogil=True)
def _is_equal(codes: Codes, start: int, held: Codes, place: int) -> bool:
    """Tell whether two 21-mers are equal, or each other's reverse complement."""
    same = other = True
    for step in range(K):
        base = codes[start + step] & 3
        same = same and base == held[place + step] & 3
        other = other and base == 3 - (held[place + K - 1 - step] & 3)
        if not (same or other):
            return False
    return True
