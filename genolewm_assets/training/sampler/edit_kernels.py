"""Compiled arithmetic of edits in a window, as in ``edits.placed_edits``. Import inside functions only.

Bases are codes, A 0 to T 3. An edit is a row of ``Room.edits``, int64 with the columns :data:`POS`, :data:`REF`,
:data:`ALT` and :data:`AT`: first base of ref (0-based in the window), lengths of ref and alt, and where alt begins in
``Room.alt``. The bases of ref are those of the window.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from genolewm_assets.edits import kernel

Bytes: TypeAlias = npt.NDArray[np.uint8]
Integers: TypeAlias = npt.NDArray[np.int64]

#: Columns of an edit.
POS, REF, ALT, AT = 0, 1, 2, 3
#: Bases of a token.
_TOKEN_BP = 6


class Site(NamedTuple):
    """One window."""

    #: uint8: bases of the left flank, the window and the right flank, among those of other windows.
    codes: Bytes
    #: Index of the window's first base in ``codes``.
    at: int
    #: ``left_bp``, ``size``, ``right_bp``: bases of the left flank, the window and the right flank.
    left_bp: int
    size: int
    right_bp: int
    #: ``contig``, ``start``, ``is_reverse``: code of the contig, -1 without an exact placement; 0-based start on it;
    #: whether the window is of its other strand.
    contig: int
    start: int
    is_reverse: bool
    #: ``held_first``, ``held_end``: rows ``[held_first, held_end)`` of the held-out alleles that an edit of the window
    #: can make.
    held_first: int
    held_end: int
    #: Whether the bases, flanks included, may spell a 31-mer that a held-out allele makes.
    spells_held: bool


class Room(NamedTuple):
    """Memory for the edits of one window."""

    #: int64, shape (3 n_slots + 5, 4): three rows per slot, then three for the reference's strand, a joined edit and
    #: the joined edit on the reference; columns see ``edit_kernels``.
    edits: Integers
    #: uint8: bases of the alts.
    alt: Bytes
    #: uint8: room for a part of an edited window.
    codes: Bytes
    #: int64, shape (n_slots, 3): the rows of the edits of each slot, sorted by position.
    rows: Integers
    #: int64, shape (n_slots,): number of edits of each slot.
    counts: Integers
    #: int64, shape (n_slots, 3): locus, shift of the bases left of the edits, change of length of each slot.
    facts: Integers
    #: uint64, shape (m, 2): see ``kmer_kernels.note_seeds``.
    notes: npt.NDArray[np.uint64]
    #: ``allele_bp``, ``joined_bp``: bytes of ``alt`` for one row, and for each of the two joined ones.
    allele_bp: int
    joined_bp: int


@kernel
def base_of(site: Site, at: int, reverse: bool) -> np.uint8:
    """Return the code of a base of the window, or of its reverse complement; behind it, forward, of the flank."""
    if reverse:
        return np.uint8(3) - site.codes[site.at + site.size - 1 - at]
    return site.codes[site.at + at]


@kernel
def write_reverse(site: Site, edits: Integers, alt: Bytes, row: int, to: int, room_at: int) -> None:
    """Write edit ``row`` as an edit of the other strand to edit ``to``, whose alt begins at ``room_at``."""
    size, first = edits[row, ALT], edits[row, AT]
    edits[to, POS] = site.size - edits[row, POS] - edits[row, REF]
    edits[to, REF], edits[to, ALT], edits[to, AT] = edits[row, REF], size, room_at
    for k in range(size):
        alt[room_at + k] = np.uint8(3) - alt[first + size - 1 - k]


@kernel
def align_left(site: Site, edits: Integers, alt: Bytes, row: int, reverse: bool) -> None:
    """Trim and left-align an edit in place; ``reverse``: it is one of the window's other strand."""
    pos, ref_bp, alt_bp, at = edits[row, POS], edits[row, REF], edits[row, ALT], edits[row, AT]
    if ref_bp == 1 and alt_bp == 1:
        return
    spare = min(ref_bp, alt_bp) - 1
    tail = 0
    while tail < spare and base_of(site, pos + ref_bp - 1 - tail, reverse) == alt[at + alt_bp - 1 - tail]:
        tail += 1
    head = 0
    while head < spare - tail and base_of(site, pos + head, reverse) == alt[at + head]:
        head += 1
    pos, at, ref_bp, alt_bp = pos + head, at + head, ref_bp - head - tail, alt_bp - head - tail
    edits[row, POS], edits[row, REF], edits[row, ALT], edits[row, AT] = pos, ref_bp, alt_bp, at
    if ref_bp == alt_bp or min(ref_bp, alt_bp) > 1 or pos == 0:
        return
    # An insertion or deletion can move only if, after trimming, one allele is the last base of the other.
    inserts = ref_bp == 1
    if inserts and alt[at + alt_bp - 1] != base_of(site, pos, reverse):
        return
    if not inserts and base_of(site, pos + ref_bp - 1, reverse) != alt[at]:
        return
    size = max(ref_bp, alt_bp) - 1
    anchor = _roll_left(site, alt, at if inserts else -1, size, pos - 1, reverse)
    if inserts:
        _turn_right(alt, at, size, (pos - 1 - anchor) % size)
        for k in range(size, 0, -1):
            alt[at + k] = alt[at + k - 1]
    alt[at] = base_of(site, anchor, reverse)
    edits[row, POS] = anchor


@kernel
def _roll_left(site: Site, alt: Bytes, event: int, size: int, first: int, reverse: bool) -> int:
    """Return the anchor of ``size`` inserted or deleted bases, which follow ``first``, after their move to the left.

    ``event`` is the index of inserted bases in ``alt``, -1 for deleted ones, which are those of the window.
    """
    anchor = first
    while anchor > 0:
        if event >= 0 and first - anchor < size:
            last = alt[event + size + anchor - first - 1]
        else:
            last = base_of(site, anchor + size, reverse)
        if base_of(site, anchor, reverse) != last:
            break
        anchor -= 1
    return anchor


@kernel
def _turn_right(alt: Bytes, at: int, size: int, turn: int) -> None:
    """Rotate ``alt[at:at + size]`` right by ``turn`` bases, by three reversals."""
    if turn > 0:
        _reverse(alt, at, at + size)
        _reverse(alt, at, at + turn)
        _reverse(alt, at + turn, at + size)


@kernel
def _reverse(alt: Bytes, start: int, end: int) -> None:
    low, high = start, end - 1
    while low < high:
        alt[low], alt[high] = alt[high], alt[low]
        low, high = low + 1, high - 1


@kernel
def last_difference(site: Site, edits: Integers, alt: Bytes, row: int) -> int:
    """Return the end of the unedited bases that an edit in normal form can be said to change, up to the right flank."""
    ref_bp, alt_bp = edits[row, REF], edits[row, ALT]
    end = edits[row, POS] + ref_bp
    if ref_bp == alt_bp:
        return end
    first, behind = end, site.size + site.right_bp
    inserts, size = ref_bp < alt_bp, max(ref_bp, alt_bp) - 1
    event = edits[row, AT] + 1 if inserts else site.at + edits[row, POS] + 1
    while end < behind:
        place = event + (end - first) % size
        if site.codes[site.at + end] != (alt[place] if inserts else site.codes[place]):
            break
        end += 1
    return end


@kernel
def first_difference(site: Site, edits: Integers, alt: Bytes, row: int) -> int:
    """Return the unedited base at which an edit alone first makes a difference; -1 if it does up to the flank's end."""
    pos, ref_bp, alt_bp, at = edits[row, POS], edits[row, REF], edits[row, ALT], edits[row, AT]
    if ref_bp == 1 and alt_bp == 1:
        return pos
    behind = site.size + site.right_bp
    if min(ref_bp, alt_bp) == 1 and site.codes[site.at + pos] == alt[at]:
        end = last_difference(site, edits, alt, row)
        return -1 if end == behind else end - max(0, ref_bp - alt_bp)
    change = alt_bp - ref_bp
    for here in range(pos, behind + min(0, change)):
        new = alt[at + here - pos] if here < pos + alt_bp else site.codes[site.at + here - change]
        if site.codes[site.at + here] != new:
            return here
    return -1


@kernel
def locus_of(site: Site, edits: Integers, alt: Bytes, rows: Integers, n: int, shift: int) -> int:
    """Return the unedited base at which n sorted edits ``rows`` first differ, given their ``shift``; -1 if nowhere."""
    low, high = max(edits[rows[0], POS], -shift), site.size - max(0, shift)
    here, delta = edits[rows[0], POS], 0
    for place in range(n):
        row = rows[place]
        first, alt_bp, at = edits[row, POS] + delta, edits[row, ALT], edits[row, AT]
        if delta != 0:
            found = _shifted_difference(site, max(here, low), min(first, high), delta)
            if found >= 0:
                return found
        for k in range(max(0, low - first), min(alt_bp, high - first)):
            if site.codes[site.at + first + k] != alt[at + k]:
                return first + k
        here, delta = first + alt_bp, delta + alt_bp - edits[row, REF]
    return _shifted_difference(site, max(here, low), high, delta) if delta != 0 else -1


@kernel
def _shifted_difference(site: Site, low: int, high: int, delta: int) -> int:
    """Return the first base in ``[low, high)`` that differs from the one ``delta`` bases before it; -1 if none."""
    for here in range(low, high):
        if site.codes[site.at + here] != site.codes[site.at + here - delta]:
            return here
    return -1


@kernel
def edited_base(site: Site, edits: Integers, alt: Bytes, rows: Integers, n: int, at: int) -> np.uint8:
    """Return the code of a base of a haplotype; ``at`` is its index in the edited window minus the shift."""
    delta = 0
    for place in range(n):
        row = rows[place]
        first = edits[row, POS] + delta
        if at < first:
            break
        if at < first + edits[row, ALT]:
            return alt[edits[row, AT] + at - first]
        delta += edits[row, ALT] - edits[row, REF]
    return site.codes[site.at + at - delta]


@kernel
def write_edited(
    site: Site, edits: Integers, alt: Bytes, rows: Integers, n: int, shift: int, low: int, high: int, codes: Bytes
) -> None:
    """Write the codes of the edited window's bases ``[low, high)`` to the beginning of ``codes``."""
    here, end, done, delta = low - shift, high - shift, 0, 0
    for place in range(n):
        row = rows[place]
        first = edits[row, POS] + delta
        size = min(first, end) - here
        if size > 0:
            _copy(codes, done, site.codes, site.at + here - delta, size)
            here, done = here + size, done + size
        size = min(first + edits[row, ALT], end) - here
        if size > 0 and here >= first:
            _copy(codes, done, alt, edits[row, AT] + here - first, size)
            here, done = here + size, done + size
        delta += edits[row, ALT] - edits[row, REF]
    if here < end:
        _copy(codes, done, site.codes, site.at + here - delta, end - here)


@kernel
def _copy(to: Bytes, to_at: int, source: Bytes, at: int, size: int) -> None:
    # Slices show the compiler that no index is negative: it then copies many bases at once.
    bases, room = source[at : at + size], to[to_at : to_at + size]
    for k in range(size):
        room[k] = bases[k]


@kernel
def is_same_haplotype(
    site: Site, edits: Integers, alt: Bytes, rows: Integers, n: int, shift: int, others: Integers, n_others: int,
    other_shift: int,
) -> bool:  # fmt: skip
    """Tell whether two sets of sorted edits make the same edited window."""
    low, high = 0, site.size
    if shift == other_shift:
        low = max(0, min(edits[rows[0], POS], edits[others[0], POS]) + shift)
        end, change = _body_end(edits, rows, n)
        other_end, other_change = _body_end(edits, others, n_others)
        if change == other_change:
            # Behind the last edit both have the same bases.
            high = min(high, max(end, other_end) + shift)
    for at in range(low, high):
        base = edited_base(site, edits, alt, rows, n, at - shift)
        if base != edited_base(site, edits, alt, others, n_others, at - other_shift):
            return False
    return True


@kernel
def _body_end(edits: Integers, rows: Integers, n: int) -> tuple[int, int]:
    """Return the base behind the last of n edits in the edited sequence, and the change of length."""
    change = 0
    for place in range(n):
        change += edits[rows[place], ALT] - edits[rows[place], REF]
    last = rows[n - 1]
    return edits[last, POS] + edits[last, REF] + change, change
