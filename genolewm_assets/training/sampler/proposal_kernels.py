"""Compiled proposals of real alleles, SNVs and indels, each judged by the rules. Import inside functions only."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from genolewm_assets.edits import kernel
from genolewm_assets.training.sampler.draw_kernels import Streams, below, take_permuted
from genolewm_assets.training.sampler.edit_kernels import ALT, AT, POS, REF, Integers, Room, Site, align_left, base_of
from genolewm_assets.training.sampler.held_kernels import Alleles, Held
from genolewm_assets.training.sampler.rule_kernels import ALLOWED, LEAVES_INSET, OTHER_REFERENCE, Limits, judge

#: Synthetic proposals of one source for one slot, after which the source counts as exhausted.
_ATTEMPTS = 64
_MAX_EVENT_BP = 15
# Typed values: a kernel is compiled once more for every literal that it is called with.
_FALSE, _SLOT = np.bool_(False), np.int64(0)
_LETTERS = np.frombuffer(b"ACGT", dtype=np.uint8)
_CODES = np.full(256, 4, dtype=np.uint8)
_CODES[_LETTERS] = np.arange(4)


class Dice(NamedTuple):
    """Random numbers of one window.

    ``streams``: int64, shape (3, STREAM_WORDS), of the slot and of the two sources of real alleles. ``key``: int64,
    shape (4,), of the visit. ``order``: int64, shape (3, most alleles of a window), alleles of each source that are
    left, and those left to stand beside an edit. ``left``, ``first``: int64, shape (2,), alleles that each source has
    left for the window (-1: not yet asked), and its first row.
    """

    streams: Streams
    key: Integers
    order: Integers
    left: Integers
    first: Integers


@kernel
def propose_real(
    site: Site, limits: Limits, held: Held, room: Room, dice: Dice, redraws: Integers, slot: int, n: int,
    alleles: Alleles, first: int, which: int, stream: int, left: int,
) -> tuple[int, int]:  # fmt: skip
    """Add the next real allele that the rules allow to the n edits of a slot; return how many are left, and its row.

    The row is -1 if none is allowed. ``alleles`` are those of the source and ``first`` the first row in question;
    ``which`` is a row of ``dice.order``, ``stream`` one of ``dice.streams``; refused proposals are counted in
    ``redraws``, int64, (8,).
    """
    row = 3 * slot + n
    while left > 0:
        chosen = first + take_permuted(dice.streams, stream, dice.order[which], left)
        left -= 1
        reason = _write_real(site, alleles, room, chosen, row)
        if reason == ALLOWED:
            reason = _attempt(site, limits, held, room, slot, n)
        if reason == ALLOWED:
            return left, chosen
        redraws[reason] += 1
    return left, -1


@kernel
def propose_allele(site: Site, limits: Limits, held: Held, room: Room, alleles: Alleles, row: int) -> int:
    """Make an allele the only edit of slot 0; return ``ALLOWED``, or the reason why it is refused."""
    reason = _write_real(site, alleles, room, row, _SLOT)
    return _attempt(site, limits, held, room, _SLOT, _SLOT) if reason == ALLOWED else reason


@kernel
def propose_synthetic(
    site: Site, limits: Limits, held: Held, room: Room, dice: Dice, redraws: Integers, slot: int, n: int,
    inserts_or_deletes: bool, low: int, high: int,
) -> bool:  # fmt: skip
    """Add a synthetic indel or SNV inside ``[low, high)``, if one of 64 is allowed, to the n edits of a slot."""
    row = 3 * slot + n
    low, high = max(low, limits.first_bp), min(high, site.size - limits.inset_bp)
    for _ in range(_ATTEMPTS):
        if inserts_or_deletes:
            is_made = _write_indel(site, room, dice, low, high, row)
        else:
            is_made = _write_snv(site, room, dice, low, high, row)
        if is_made:
            reason = _attempt(site, limits, held, room, slot, n)
            if reason == ALLOWED:
                return True
            redraws[reason] += 1
    return False


@kernel
def _attempt(site: Site, limits: Limits, held: Held, room: Room, slot: int, n: int) -> int:
    """Judge the n edits of a slot together with its row n; keep them sorted, and drop the new one if it is refused."""
    rows, edits, new = room.rows[slot], room.edits, 3 * slot + n
    place = n
    while place > 0 and edits[rows[place - 1], POS] > edits[new, POS]:
        rows[place] = rows[place - 1]
        place -= 1
    rows[place] = new
    reason = judge(site, limits, held, room, slot, n + 1)
    if reason != ALLOWED:
        for at in range(place, n):
            rows[at] = rows[at + 1]
    return reason


@kernel
def _write_real(site: Site, alleles: Alleles, room: Room, chosen: int, row: int) -> int:
    """Write a reference allele as an edit of the window, in its normal form; return the reason if it cannot be one."""
    edits, alt, at = room.edits, room.alt, row * room.allele_bp
    first, middle = np.int64(alleles.at[2 * chosen]), np.int64(alleles.at[2 * chosen + 1])
    end = np.int64(alleles.at[2 * chosen + 2])
    if not first < middle < end <= alleles.text.size:  # the file is damaged
        return OTHER_REFERENCE
    ref_bp, alt_bp = middle - first, end - middle
    pos = alleles.pos[chosen] - 1 - site.start
    if pos < 0 or pos > site.size - ref_bp:
        return OTHER_REFERENCE
    for k in range(ref_bp):
        if alleles.text[first + k] != _LETTERS[base_of(site, pos + k, site.is_reverse)]:
            return OTHER_REFERENCE
    if alt_bp > room.allele_bp:  # it is longer than the window
        return LEAVES_INSET
    for k in range(alt_bp):
        code = _CODES[alleles.text[middle + k]]
        if code > 3:
            return OTHER_REFERENCE
        if site.is_reverse:
            alt[at + alt_bp - 1 - k] = np.uint8(3) - code
        else:
            alt[at + k] = code
    edits[row, POS] = site.size - pos - ref_bp if site.is_reverse else pos
    edits[row, REF], edits[row, ALT], edits[row, AT] = ref_bp, alt_bp, at
    align_left(site, edits, alt, row, _FALSE)
    return ALLOWED


@kernel
def _write_snv(site: Site, room: Room, dice: Dice, low: int, high: int, row: int) -> bool:
    """Write an SNV at a uniform position in ``[low, high)``; return False if the range is empty."""
    if high <= low:
        return False
    pos = low + below(dice.streams, _SLOT, high - low)
    other = np.uint8(below(dice.streams, _SLOT, 3))
    at = row * room.allele_bp
    room.alt[at] = other + np.uint8(1) if other >= site.codes[site.at + pos] else other
    room.edits[row, POS], room.edits[row, REF], room.edits[row, ALT], room.edits[row, AT] = pos, 1, 1, at
    return True


@kernel
def _write_indel(site: Site, room: Room, dice: Dice, low: int, high: int, row: int) -> bool:
    """Write an insertion or a deletion inside ``[low, high)``; return False if the range is too short."""
    streams, edits, alt = dice.streams, room.edits, room.alt
    event_bp, number = _MAX_EVENT_BP + 1, 1 + below(streams, _SLOT, 2**_MAX_EVENT_BP - 1)
    while number > 0:  # minus the bit length
        number >>= 1
        event_bp -= 1
    inserts = below(streams, _SLOT, 2) == 1
    if high - event_bp <= low:
        return False
    pos, at = low + below(streams, _SLOT, high - event_bp - low), row * room.allele_bp
    alt[at] = site.codes[site.at + pos]
    edits[row, POS], edits[row, REF], edits[row, ALT], edits[row, AT] = pos, 1, 1, at
    if inserts:
        edits[row, ALT] = 1 + event_bp
        for k in range(event_bp):
            alt[at + 1 + k] = np.uint8(below(streams, _SLOT, 4))
    else:
        edits[row, REF] = 1 + event_bp
    align_left(site, edits, alt, row, _FALSE)
    return True
