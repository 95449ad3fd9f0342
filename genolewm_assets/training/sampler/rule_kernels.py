"""Compiled rules for edits that stand together: those of ``edits.rules``. Import inside functions only."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from genolewm_assets.edits import kernel
from genolewm_assets.training.sampler.edit_kernels import (
    ALT,
    POS,
    REF,
    Integers,
    Room,
    Site,
    align_left,
    first_difference,
    is_same_haplotype,
    locus_of,
    write_edited,
    write_reverse,
)
from genolewm_assets.training.sampler.held_kernels import Held, makes_held_out, note_seeds, shows_held_out

#: Return value of :func:`judge` for an allowed haplotype; other values are places in the order of ``Redraw``.
ALLOWED = -1
LEAVES_INSET, HELD_OUT, DUPLICATE, NO_DIFFERENCE, TOO_CLOSE, BEYOND_FLANK, OTHER_REFERENCE, OUTSIDE_POOLED = range(8)
#: Length policies in the order of ``LengthPolicy``.
_LEFT_FLANK, _OPPOSITE = 1, 2
#: Columns of ``Room.facts``.
LOCUS, SHIFT, CHANGE = 0, 1, 2
_TOKEN_BP = 6
_FALSE, _TRUE = np.bool_(False), np.bool_(True)
_NOTHING = np.int64(0)


class Limits(NamedTuple):
    """``SamplingRules`` as numbers."""

    #: ``first_bp``, ``inset_bp``: lowest allowed position of an edit, and bases at each end of the window that no edit
    #: touches.
    first_bp: int
    inset_bp: int
    #: Index of the length policy in ``LengthPolicy``.
    policy: int
    #: Probability that a slot is planned with 2 or 3 edits.
    multi_edit_share: float
    #: ``is_global``, ``is_right``, ``radius_tokens``, ``block_tokens``: pooling.
    is_global: bool
    is_right: bool
    radius_tokens: int
    block_tokens: int
    #: Whether the token of the locus must differ between the two windows.
    shown_at_locus: bool


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
    if site.held_first < site.held_end and makes_held_out(site, held.alleles, room, rows, n):
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
    by_bases = site.contig < 0 and held.kmers.keys.size > 0
    noted = note_seeds(site, held, room, rows, n, shift) if by_bases else _NOTHING
    if shift != 0 and limits.shown_at_locus and not _shows(site, room, rows, n, shift, locus):
        return NO_DIFFERENCE
    if not _is_pooled(site, limits, room, rows, n, locus):
        return OUTSIDE_POOLED
    if _is_taken(site, room, slot, n, shift):
        return DUPLICATE
    if by_bases and shows_held_out(site, held, room, rows, n, shift, noted):
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
        row = rows[place]
        at = first_difference(site, room.edits, room.alt, row)
        if at < 0 or not low <= at // _TOKEN_BP < high:
            return False
        # A single deletion may be longer than the span; beside another edit, all that it deletes lies inside.
        if n > 1 and room.edits[row, POS] + room.edits[row, REF] > high * _TOKEN_BP:
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
