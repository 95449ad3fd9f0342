"""Compiled rules that decide whether edits may stand together in a window: those of ``lewm.edits.rules``.

Import this module inside functions only: importing numba is slow.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from genolewm_assets.lewm.edits import HeldKmers, kmer_kernels
from genolewm_assets.lewm.sampler.compiling import kernel
from genolewm_assets.lewm.sampler.edit_kernels import (
    ALT,
    AT,
    POS,
    REF,
    Bytes,
    Integers,
    Site,
    align_left,
    first_difference,
    is_same_haplotype,
    last_difference,
    locus_of,
    write_edited,
    write_reverse,
)

Offsets: TypeAlias = npt.NDArray[np.uint32]

#: Return value of :func:`judge` for an allowed haplotype; other values are places in the order of ``Redraw``.
ALLOWED = -1
LEAVES_INSET, HELD_OUT, DUPLICATE, NO_DIFFERENCE, TOO_CLOSE, BEYOND_FLANK, OTHER_REFERENCE, OUTSIDE_POOLED = range(8)
#: Length policies in the order of ``LengthPolicy``.
_RIGHT_FLANK, _LEFT_FLANK, _OPPOSITE = 0, 1, 2
#: Columns of ``Room.facts``.
LOCUS, SHIFT, CHANGE = 0, 1, 2
_TOKEN_BP, _CONTEXT_BP = 6, 30
_FALSE, _TRUE = np.bool_(False), np.bool_(True)
_LETTERS = np.frombuffer(b"ACGT", dtype=np.uint8)
_has_key = kmer_kernels.has_key_of_codes


class Limits(NamedTuple):
    """``SamplingRules`` as numbers.

    Attributes
    ----------
    first_bp, inset_bp
        Lowest allowed position of an edit, and bases at each end of the window that no edit touches.
    policy
        Index of the length policy in ``LengthPolicy``.
    multi_edit_share
        Probability that a slot is planned with 2 or 3 edits.
    is_global, is_right, radius_tokens, block_tokens
        Pooling.
    """

    first_bp: int
    inset_bp: int
    policy: int
    multi_edit_share: float
    is_global: bool
    is_right: bool
    radius_tokens: int
    block_tokens: int


class Alleles(NamedTuple):
    """Alleles sorted by contig and position.

    Attributes
    ----------
    pos
        int64, shape (n,), 1-based.
    at
        uint32, shape (2 n + 1,): ref of row i is ``text[at[2 i]:at[2 i + 1]]``, alt ``text[at[2 i + 1]:at[2 i + 2]]``.
    text
        uint8, ASCII.
    rows
        int64, shape (n_contigs, 2): first row of each contig, and the row behind its last.
    """

    pos: Integers
    at: Offsets
    text: Bytes
    rows: Integers


class Held(NamedTuple):
    """Alleles that no edit may make, and the 31-mers that tell them."""

    alleles: Alleles
    kmers: HeldKmers


class Room(NamedTuple):
    """Memory for the edits of one window.

    Attributes
    ----------
    edits
        int64, shape (3 n_slots + 5, 4): three rows per slot, then three for the reference's strand, a joined edit and
        the joined edit on the reference; columns see ``edit_kernels``.
    alt
        uint8: bases of the alts.
    codes
        uint8: room for a part of an edited window.
    rows
        int64, shape (n_slots, 3): the rows of the edits of each slot, sorted by position.
    counts
        int64, shape (n_slots,): number of edits of each slot.
    facts
        int64, shape (n_slots, 3): locus, shift of the bases left of the edits, change of length of each slot.
    allele_bp, joined_bp
        Bytes of ``alt`` for one row, and for each of the two joined ones.
    """

    edits: Integers
    alt: Bytes
    codes: Bytes
    rows: Integers
    counts: Integers
    facts: Integers
    allele_bp: int
    joined_bp: int


@kernel
def judge(site: Site, limits: Limits, held: Held, room: Room, slot: int, n: int) -> int:
    """Return ``ALLOWED`` or the reason why the first n edits of a slot, sorted and in normal form, are refused.

    ``room.facts[slot]`` holds locus, shift and change of an allowed haplotype. Haplotypes of earlier slots are not
    made again.
    """
    edits, alt, rows, facts = room.edits, room.alt, room.rows[slot], room.facts[slot]
    reason = _misplaced(site, limits, room, rows, n)
    if reason != ALLOWED:
        return reason
    if site.held_first < site.held_end and _makes_held_out(site, held.alleles, room, rows, n):
        return HELD_OUT
    first, last = rows[0], rows[n - 1]
    change = 0
    for place in range(n):
        change += edits[rows[place], ALT] - edits[rows[place], REF]
    from_left = limits.policy == _LEFT_FLANK or (
        limits.policy == _OPPOSITE and edits[first, POS] + edits[last, POS] + edits[last, REF] > site.size
    )
    shift = -change if from_left else 0
    locus = locus_of(site, edits, alt, rows, n, shift)
    if locus < 0 or locus >= site.size - limits.inset_bp:
        return NO_DIFFERENCE
    if shift != 0 and not _shows(site, room, rows, n, shift, locus):
        return NO_DIFFERENCE
    if not _is_pooled(site, limits, room, rows, n, locus):
        return OUTSIDE_POOLED
    if _is_taken(site, room, slot, n, shift):
        return DUPLICATE
    if site.contig < 0 and held.kmers.keys.size > 0 and _shows_held_out(site, held, room, rows, n, shift):
        return HELD_OUT
    # The facts of a slot stay those of its edits so far where a further edit is refused.
    facts[LOCUS], facts[SHIFT], facts[CHANGE] = locus, shift, change
    return ALLOWED


@kernel
def _misplaced(site: Site, limits: Limits, room: Room, rows: Integers, n: int) -> int:
    """Return the reason why positions are not allowed; write the edits on the other strand of a reverse window."""
    edits, alt, inset_bp, spare = room.edits, room.alt, limits.inset_bp, room.edits.shape[0] - 5
    inside = edits[rows[0], POS] >= limits.first_bp
    change = 0
    for place in range(n):
        row = rows[place]
        inside &= _is_inset(site, edits, row, inset_bp)
        change += edits[row, ALT] - edits[row, REF]
        if site.is_reverse and inside:
            write_reverse(site, edits, alt, row, spare + place, (spare + place) * room.allele_bp)
            align_left(site, edits, alt, spare + place, _TRUE)
            inside &= _is_inset(site, edits, spare + place, inset_bp)
    if not inside:
        return LEAVES_INSET
    for place in range(1, n):
        before = rows[place - 1]
        if edits[rows[place], POS] - edits[before, POS] - edits[before, REF] < _TOKEN_BP:
            return TOO_CLOSE
    return BEYOND_FLANK if abs(change) > min(site.left_bp, site.right_bp) else ALLOWED


@kernel
def _is_inset(site: Site, edits: Integers, row: int, inset_bp: int) -> bool:
    pos = edits[row, POS]
    return pos >= inset_bp and pos + max(edits[row, REF], edits[row, ALT]) <= site.size - inset_bp


@kernel
def _makes_held_out(site: Site, held: Alleles, room: Room, rows: Integers, n: int) -> bool:
    """Tell whether an edit, or neighbouring edits together, make a held-out allele; needs :func:`_misplaced`."""
    spare = room.edits.shape[0] - 5
    for place in range(n):
        row = spare + place if site.is_reverse else rows[place]
        if _is_held_out(held, site, room.edits, room.alt, row):
            return True
    for first in range(n - 1):
        for last in range(first + 1, n):
            row = _write_joined(site, room, rows, first, last)
            if _is_held_out(held, site, room.edits, room.alt, row):
                return True
    return False


@kernel
def _write_joined(site: Site, room: Room, rows: Integers, first: int, last: int) -> int:
    """Write edits ``first`` to ``last`` as one edit in the reference's normal form, and return its row."""
    edits, alt, row = room.edits, room.alt, room.edits.shape[0] - 2
    at = (room.edits.shape[0] - 2) * room.allele_bp
    pos, size = edits[rows[first], POS], 0
    end = pos
    for place in range(first, last + 1):
        one = rows[place]
        for k in range(end, edits[one, POS]):
            alt[at + size] = site.codes[site.at + k]
            size += 1
        for k in range(edits[one, ALT]):
            alt[at + size] = alt[edits[one, AT] + k]
            size += 1
        end = edits[one, POS] + edits[one, REF]
    edits[row, POS], edits[row, REF], edits[row, ALT], edits[row, AT] = pos, end - pos, size, at
    align_left(site, edits, alt, row, _FALSE)
    if site.is_reverse:
        write_reverse(site, edits, alt, row, row + 1, at + room.joined_bp)
        align_left(site, edits, alt, row + 1, _TRUE)
        return row + 1
    return row


@kernel
def first_row(alleles: Alleles, contig: int, pos: int) -> int:
    """Return the first row of a contig whose allele lies at ``pos`` (1-based) or behind."""
    return _first_between(alleles, alleles.rows[contig, 0], alleles.rows[contig, 1], pos)


@kernel
def _first_between(alleles: Alleles, low: int, high: int, pos: int) -> int:
    while low < high:
        middle = (low + high) >> 1
        if alleles.pos[middle] < pos:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _is_held_out(alleles: Alleles, site: Site, edits: Integers, alt: Bytes, row: int) -> bool:
    """Tell whether an edit, given in the reference's normal form, is one of the window's held-out alleles.

    An allele at its place whose bounds are not in the text counts as the edit.
    """
    pos = site.start + edits[row, POS] + 1
    ref_bp, alt_bp, alt_at = edits[row, REF], edits[row, ALT], edits[row, AT]
    for at in range(_first_between(alleles, site.held_first, site.held_end, pos), site.held_end):
        if alleles.pos[at] != pos:
            return False
        first, middle = np.int64(alleles.at[2 * at]), np.int64(alleles.at[2 * at + 1])
        end = np.int64(alleles.at[2 * at + 2])
        if not first <= middle <= end <= alleles.text.size:  # the file is damaged, and any allele may be this one
            return True
        if middle - first != ref_bp or end - middle != alt_bp:
            continue
        same = True
        for k in range(alt_bp):
            same &= alleles.text[middle + k] == _LETTERS[alt[alt_at + k]]
        for k in range(ref_bp):
            own = site.at + site.size - 1 - edits[row, POS] - k if site.is_reverse else site.at + edits[row, POS] + k
            code = np.uint8(3) - site.codes[own] if site.is_reverse else site.codes[own]
            same &= alleles.text[first + k] == _LETTERS[code]
        if same:
            return True
    return False


@kernel
def _shows(site: Site, room: Room, rows: Integers, n: int, shift: int, locus: int) -> bool:
    """Tell whether the token of the locus differs between the two windows."""
    low = locus // _TOKEN_BP * _TOKEN_BP
    high = min(site.size, low + _TOKEN_BP)
    write_edited(site, room.edits, room.alt, rows, n, shift, low, high, room.codes)
    differs = False
    for k in range(high - low):
        differs |= room.codes[k] != site.codes[site.at + low + k]
    return differs


@kernel
def pooled_blocks(limits: Limits, token: int, n_tokens: int) -> tuple[int, int]:
    """Return the first block and the block behind the last one that a tuple with this locus is pooled over."""
    n_blocks = -(-n_tokens // limits.block_tokens)
    if limits.is_global:
        return 0, n_blocks
    first = token if limits.is_right else max(0, token - limits.radius_tokens)
    stop = (token + limits.radius_tokens) // limits.block_tokens + 1
    return first // limits.block_tokens, min(n_blocks, stop)


@kernel
def _is_pooled(site: Site, limits: Limits, room: Room, rows: Integers, n: int, locus: int) -> bool:
    n_tokens = site.size // _TOKEN_BP
    first, stop = pooled_blocks(limits, locus // _TOKEN_BP, n_tokens)
    low, high = first * limits.block_tokens, min(n_tokens, stop * limits.block_tokens)
    for place in range(n):
        at = first_difference(site, room.edits, room.alt, rows[place])
        if at < 0 or not low <= at // _TOKEN_BP < high:
            return False
    return True


@kernel
def reach(site: Site, limits: Limits, room: Room, slot: int, n: int) -> tuple[int, int]:
    """Return the bases ``[low, high)`` in which a further edit is pooled together with the n edits of a slot."""
    n_tokens = site.size // _TOKEN_BP
    first, last = n_tokens, -1
    for place in range(n):
        token = first_difference(site, room.edits, room.alt, room.rows[slot, place]) // _TOKEN_BP
        first, last = min(first, token), max(last, token)
    low, high = 0, first + 1
    while low < high:
        middle = (low + high) >> 1
        if _pooled_end(limits, middle, n_tokens) < last + 1:
            low = middle + 1
        else:
            high = middle
    return low * _TOKEN_BP, _pooled_end(limits, first, n_tokens) * _TOKEN_BP


@kernel
def _pooled_end(limits: Limits, token: int, n_tokens: int) -> int:
    return min(n_tokens, pooled_blocks(limits, token, n_tokens)[1] * limits.block_tokens)


@kernel
def _is_taken(site: Site, room: Room, slot: int, n: int, shift: int) -> bool:
    """Tell whether an earlier slot has the same edited window."""
    edits, alt, rows, facts = room.edits, room.alt, room.rows, room.facts
    for other in range(slot):
        if is_same_haplotype(
            site, edits, alt, rows[slot], n, shift, rows[other], room.counts[other], facts[other, SHIFT]
        ):
            return True
    return False


@kernel
def _shows_held_out(site: Site, held: Held, room: Room, rows: Integers, n: int, shift: int) -> bool:
    """Tell whether bases that differ, or those around or between them, spell a held-out allele in either window."""
    if site.spells_held:
        return _spells_somewhere(site, held, room, rows, n, shift)
    # What the window does not spell, the edited one spells with bases of an alt, or across its edits.
    edits, moved = room.edits, shift
    for place in range(n):
        row = rows[place]
        at = edits[row, POS] + moved
        if _spells(site, held, room, rows, n, shift, at, at + edits[row, ALT]):
            return True
        moved += edits[row, ALT] - edits[row, REF]
    return False


@kernel
def _spells_somewhere(site: Site, held: Held, room: Room, rows: Integers, n: int, shift: int) -> bool:
    edits, furthest, gained = room.edits, 0, 0
    for place in range(n):
        row = rows[place]
        end = last_difference(site, edits, room.alt, row)
        low, high = max(0, edits[row, POS] - _CONTEXT_BP), min(site.size, end + _CONTEXT_BP)
        if _has_key(site.codes[site.at + low : site.at + high], held.kmers):
            return True
        furthest, gained = max(furthest, end), gained + max(0, edits[row, ALT] - edits[row, REF])
    return _spells(site, held, room, rows, n, shift, edits[rows[0], POS] + shift, furthest + shift + gained)


@kernel
def _spells(
    site: Site, held: Held, room: Room, rows: Integers, n: int, shift: int, first: int, end: int
) -> bool:  # fmt: skip
    """Tell whether bases ``[first, end)`` of the edited window, with those around them, spell a held-out allele."""
    low, high = max(0, first - _CONTEXT_BP), min(site.size, end + _CONTEXT_BP)
    if high <= low:
        return False
    write_edited(site, room.edits, room.alt, rows, n, shift, low, high, room.codes)
    return _has_key(room.codes[: high - low], held.kmers)
