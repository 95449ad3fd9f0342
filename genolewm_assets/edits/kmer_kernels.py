"""Compiled loops over the 31-mers that alleles make. Import inside functions only: importing numba is slow.

A key stands for a 31-mer and its reverse complement; one with a byte other than A, C, G and T has no key.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from genolewm_assets.edits.compiling import kernel, prefetch
from genolewm_assets.edits.held_kmers import HeldKmers
from genolewm_assets.own_caches import compiled

#: Bases of a k-mer, and of a seed. A k-mer has ``K - SEED + 1`` seeds, so it has exactly one of those that begin at
#: every such place of a text.
K, SEED = 31, 16
_STEP = K - SEED + 1
#: Seeds whose words are loaded before they are looked at: most words are in none of the processor's caches.
_AHEAD = 128

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int32]
Keys = npt.NDArray[np.uint64]
Integers = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]

#: Code of every byte: A 0, C 1, G 2, T 3, any other 4. A look-up is faster than branches that cannot be predicted.
_CODES = np.full(256, 4, dtype=np.uint64)
_CODES[np.frombuffer(b"ACGT", dtype=np.uint8)] = np.arange(4)
#: Added to the code of the first base of a 31-mer that the reference lacks.
_NEW = np.uint8(8)


_TOP = np.uint64(2 * (K - 1))
_MASK = np.uint64((1 << 2 * K) - 1)
_SEED_MASK, _SEED_TOP = np.uint64((1 << 2 * SEED) - 1), np.uint64(2 * (SEED - 1))
_FACTOR, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(31)
_SIX = np.uint64(63)
#: Bits that change places, and which: bases, pairs of them, bytes and pairs of bytes.
_SWAPS = ((2, 0x3333333333333333), (4, 0x0F0F0F0F0F0F0F0F), (8, 0x00FF00FF00FF00FF), (16, 0x0000FFFF0000FFFF))


@kernel
def _mix(kmer: np.uint64) -> np.uint64:
    """Return a different number for every 31-mer, with even leading bits."""
    return (kmer ^ (kmer >> _HALF)) * _FACTOR


@compiled(nogil=True)
def write_keys(text: Bytes, keys: Keys) -> int:
    """Write the key of every 31-mer of a text to ``keys``, of room ``len(text) - 30``, and return their number."""
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


@compiled(nogil=True)
def write_new_keys(alt_at: Offsets, alt_text: Bytes, ref_at: Offsets, ref_text: Bytes, keys: Keys, codes: Bytes) -> int:
    """Write the keys of 31-mers that haplotypes have and their reference lacks, and return their number.

    ``codes``, of the size of ``alt_text``, receives the codes of its bases, and :data:`_NEW` at the first base of each
    of these 31-mers.
    """
    n, longest = 0, 1
    for row in range(ref_at.size - 1):
        longest = max(longest, ref_at[row + 1] - ref_at[row])
    known = np.empty(longest, dtype=np.uint64)
    for row in range(alt_at.size - 1):
        n_known = write_keys(ref_text[ref_at[row] : ref_at[row + 1]], known)
        there = np.sort(known[:n_known])
        write_keys(alt_text[alt_at[row] : alt_at[row + 1]], keys[n:])
        at, run = n, 0
        for place in range(alt_at[row], alt_at[row + 1]):
            code = _CODES[alt_text[place]]
            codes[place] = code
            run = run + 1 if code < 4 else 0
            if run >= K:
                found = np.searchsorted(there, keys[at])
                if found == there.size or there[found] != keys[at]:
                    keys[n] = keys[at]
                    codes[place - K + 1] |= _NEW
                    n += 1
                at += 1
    return n


@compiled(nogil=True)
def keep_different(keys: Keys) -> int:
    """Move the different keys of a sorted array to its front; return their number."""
    n = 0
    for at in range(keys.size):
        if n == 0 or keys[at] != keys[n - 1]:
            keys[n] = keys[at]
            n += 1
    return n


@kernel
def _two_bits(key: np.uint64) -> np.uint64:
    """Return two bits of a word, which the middle of a key names."""
    # The middle of a product depends on all bits of its factors.
    return (np.uint64(1) << (key >> np.uint64(26) & _SIX)) | (np.uint64(1) << (key >> np.uint64(20) & _SIX))


@kernel
def _seed_bits(forward: np.uint64, backward: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return the mixed key of a seed, whose leading bits name a word, and the two bits of the seed in it."""
    key = _mix(min(forward, backward))
    return key, _two_bits(key)


@compiled(nogil=True)
def write_seeds(codes: Bytes, shift: np.uint64, seeds: Keys) -> None:
    """Set two bits in one word for every seed of the new 31-mers of :func:`write_new_keys`; ``seeds`` begins with 0.

    The word is the one that the leading bits of a seed's key name; a key has ``shift`` bits behind these.
    """
    forward, backward, last = np.uint64(0), np.uint64(0), -K
    for place in range(codes.size):
        base, start = np.uint64(codes[place] & np.uint8(3)), place - SEED + 1
        forward = ((forward << np.uint64(2)) | base) & _SEED_MASK
        backward = (backward >> np.uint64(2)) | ((np.uint64(3) - base) << _SEED_TOP)
        if start >= 0 and codes[start] & _NEW:
            last = start
        if start - last < _STEP:
            key, bits = _seed_bits(forward, backward)
            seeds[np.int64(key >> shift)] |= bits


@kernel
def _reversed(word: np.uint64) -> np.uint64:
    """Return the 32 bases of a word in the other order."""
    for bits, mask in _SWAPS:
        word = word >> np.uint64(bits) & np.uint64(mask) | (word & np.uint64(mask)) << np.uint64(bits)
    return word >> np.uint64(32) | word << np.uint64(32)


@compiled(nogil=True)
def has_key(text: Bytes, table: HeldKmers) -> bool:
    """Tell whether a 31-mer of a text has one of the keys of a table."""
    if text.size < K:
        return False
    own = np.empty(text.size - K + 1, dtype=np.uint64)
    n, at = write_keys(text, own), 0
    while at < n and not _is_key(own[at], table):
        at += 1
    return at < n


@kernel
def has_key_of_codes(codes: Bytes, table: HeldKmers) -> bool:
    """Tell whether codes, A 0 to T 3, have a key of a table; one seed in 16 bases is looked up, then the key."""
    for at in range(_STEP - 1, codes.size - SEED + 1, _STEP):
        if _is_seed(codes, at, table) and _has_key_around(codes, at, table):
            return True
    return False


@compiled(nogil=True)
def mark_spelling(packed: Bytes, first: Integers, n_bases: Integers, table: HeldKmers, marks: Marks) -> None:
    """Mark the rows whose bases have one of the keys of a table.

    ``packed``: uint8: four bases a byte, the first in the lowest bits; A 0 to T 3. ``first``, ``n_bases``: int64, shape
    (n,): first byte of each row, and its bases. ``marks``: bool, shape (n,).
    """
    around = np.empty(SEED + 2 * (_STEP - 1), dtype=np.uint8)
    places = np.empty(_AHEAD, dtype=np.int64)
    words, wanted = np.empty((3, _AHEAD), dtype=np.int64), np.empty((3, _AHEAD), dtype=np.uint64)
    for row in range(first.size):
        bases, n, at = packed[first[row] :], n_bases[row], 0
        marks[row] = False
        while at <= n - SEED and not marks[row]:
            noted = min(_AHEAD, (n - SEED - at) // _STEP + 1)
            for seed in range(noted):
                _note_packed_seed(bases, at + seed * _STEP, table, words[0], wanted[0], seed)
            n_found = 0
            for seed in range(noted):
                if table.seeds[words[0, seed]] & wanted[0, seed] == wanted[0, seed]:
                    places[n_found] = place = at + seed * _STEP
                    # A 31-mer with the seed has one of those that begin a base before and behind it.
                    _note_packed_seed(bases, max(0, place - 1), table, words[1], wanted[1], n_found)
                    _note_packed_seed(bases, min(n - SEED, place + 1), table, words[2], wanted[2], n_found)
                    n_found += 1
            for found in range(n_found):
                before = table.seeds[words[1, found]] & wanted[1, found] == wanted[1, found]
                if before or table.seeds[words[2, found]] & wanted[2, found] == wanted[2, found]:
                    place = places[found]
                    low, high = max(0, place - _STEP + 1), min(n, place + SEED + _STEP - 1)
                    for each in range(low, high):
                        around[each - low] = bases[each >> 2] >> np.uint8(2 * (each & 3)) & np.uint8(3)
                    if _has_key_around(around[: high - low], place - low, table):
                        marks[row] = True
                        break
            at += noted * _STEP


@kernel
def _note_packed_seed(packed: Bytes, at: int, table: HeldKmers, words: Integers, wanted: Keys, number: int) -> None:
    """Note the word and the bits of the seed at a place of packed bases, and begin to load the word."""
    key, bits = _packed_seed_at(packed, at)
    words[number], wanted[number] = np.int64(key >> table.shift), bits
    prefetch(table.seeds, words[number])


@kernel
def _packed_seed_at(packed: Bytes, at: int) -> tuple[np.uint64, np.uint64]:
    """Return what :func:`_seed_at` does for packed bases."""
    word, ahead = np.uint64(0), at & 3
    for byte in range((ahead + SEED + 3) >> 2):
        word |= np.uint64(packed[(at >> 2) + byte]) << np.uint64(8 * byte)
    word = word >> np.uint64(2 * ahead) & _SEED_MASK
    # The last base has the highest bits, as in the reverse complement.
    return _seed_bits(_reversed(word) >> np.uint64(64 - 2 * SEED), ~word & _SEED_MASK)


@kernel
def _has_key_around(codes: Bytes, seed_at: int, table: HeldKmers) -> bool:
    """Tell whether a 31-mer that has the seed at a place, one of the table's, has one of its keys."""
    low, high = seed_at, seed_at
    while low > max(0, seed_at - _STEP + 1) and _is_seed(codes, low - 1, table):
        low -= 1
    while high < min(codes.size - SEED, seed_at + _STEP - 1) and _is_seed(codes, high + 1, table):
        high += 1
    for first in range(low, high - _STEP + 2):
        forward, backward = np.uint64(0), np.uint64(0)
        for place in range(K):
            code = np.uint64(codes[first + place])
            forward = (forward << np.uint64(2)) | code
            backward = (backward >> np.uint64(2)) | ((np.uint64(3) - code) << _TOP)
        if _is_key(_mix(min(forward, backward)), table):
            return True
    return False


@kernel
def _is_seed(codes: Bytes, at: int, table: HeldKmers) -> bool:
    """Tell whether the bases at a place are, as far as the bits tell, a seed of a 31-mer of the table."""
    key, bits = _seed_at(codes, at)
    return table.seeds[np.int64(key >> table.shift)] & bits == bits


@kernel
def note_seeds(codes: Bytes, table: HeldKmers, notes: Keys, n: int) -> int:
    """Note the seeds that :func:`has_key_of_codes` looks up behind n others, and begin to load their words.

    Result: number of seeds noted; more than the rows of ``notes``, uint64 of shape (n, 2), if not all have room.
    """
    for at in range(_STEP - 1, codes.size - SEED + 1, _STEP):
        if n < notes.shape[0]:
            key, bits = _seed_at(codes, at)
            word = np.int64(key >> table.shift)
            notes[n, 0], notes[n, 1] = word, bits
            prefetch(table.seeds, word)
        n += 1
    return n


@kernel
def has_noted(table: HeldKmers, notes: Keys, n: int) -> bool:
    """Tell whether one of n noted seeds is one of the table's, as far as the bits tell; true if not all had room."""
    if n > notes.shape[0]:
        return True
    for row in range(n):
        bits = notes[row, 1]
        if table.seeds[np.int64(notes[row, 0])] & bits == bits:
            return True
    return False


@kernel
def _seed_at(codes: Bytes, at: int) -> tuple[np.uint64, np.uint64]:
    forward, backward = np.uint64(0), np.uint64(0)
    own = codes[at : at + SEED]
    for place in range(SEED):
        code = np.uint64(own[place])
        forward |= code << np.uint64(2 * (SEED - 1 - place))
        backward |= (np.uint64(3) - code) << np.uint64(2 * place)
    return _seed_bits(forward, backward)


@kernel
def _is_key(key: np.uint64, table: HeldKmers) -> bool:
    low, high = 0, table.keys.size
    while low < high:
        middle = (low + high) >> 1
        if table.keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low < table.keys.size and table.keys[low] == key
