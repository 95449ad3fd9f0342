"""Compiled rules of ``edits.rules`` about held-out alleles, by place or by bases. Import inside functions only."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from genolewm_assets.edits import HeldKmers, kernel, kmer_kernels
from genolewm_assets.training.sampler.edit_kernels import (
    ALT,
    AT,
    POS,
    REF,
    Bytes,
    Integers,
    Room,
    Site,
    align_left,
    last_difference,
    write_edited,
    write_reverse,
)

Offsets: TypeAlias = npt.NDArray[np.uint32]

_CONTEXT_BP = 30
#: Rows that are first looked at on a side of where a position is expected.
_NEAR_ROWS = 64
_FALSE, _TRUE = np.bool_(False), np.bool_(True)
_LETTERS = np.frombuffer(b"ACGT", dtype=np.uint8)
_has_key, _note, _has_noted = kmer_kernels.has_key_of_codes, kmer_kernels.note_seeds, kmer_kernels.has_noted


class Alleles(NamedTuple):
    """Alleles sorted by contig and position."""

    #: int64, shape (n,), 1-based.
    pos: Integers
    #: uint32, shape (2 n + 1,): ref of row i is ``text[at[2 i]:at[2 i + 1]]``, alt ``text[at[2 i + 1]:at[2 i + 2]]``.
    at: Offsets
    #: uint8, ASCII.
    text: Bytes
    #: int64, shape (n_contigs, 2): first row of each contig, and the row behind its last.
    rows: Integers


class Held(NamedTuple):
    """Alleles that no edit may make, and the 31-mers that tell them."""

    alleles: Alleles
    kmers: HeldKmers


@kernel
def makes_held_out(site: Site, held: Alleles, room: Room, rows: Integers, n: int) -> bool:
    """Tell whether an edit, or neighbouring edits together, make a held-out allele.

    The edits of a reverse window have been written on the other strand.
    """
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
def rows_between(alleles: Alleles, contig: int, low: int, high: int) -> tuple[int, int]:
    """Return the rows ``[first, end)`` of the alleles of a contig whose 1-based ``pos`` is in ``[low, high)``."""
    end = alleles.rows[contig, 1]
    first = _first_near(alleles, alleles.rows[contig, 0], end, low)
    # The others are near, and memory far away need not be read to find the last of them.
    near, step = first, 16
    while near + step < end and alleles.pos[near + step] < high:
        near, step = near + step, 2 * step
    return first, _first_between(alleles, near, min(end, near + step), high)


@kernel
def _first_near(alleles: Alleles, low: int, high: int, pos: int) -> int:
    """Return what :func:`_first_between` does; the search begins where the row would be at equal distances.

    Halving all rows of a contig reads places far apart, each on a page that may have to be mapped first.
    """
    if low >= high or pos <= alleles.pos[low]:
        return low
    lowest, highest, last = alleles.pos[low], alleles.pos[high - 1], high - 1
    if pos > highest:
        return high
    share = (pos - lowest) / (highest - lowest)
    near, step = min(max(low + int(share * (last - low)), low), last), _NEAR_ROWS
    if alleles.pos[near] < pos:
        while near + step < last and alleles.pos[near + step] < pos:
            near, step = near + step, 2 * step
        return _first_between(alleles, near + 1, min(last, near + step), pos)
    while near - step > low and alleles.pos[near - step] >= pos:
        near, step = near - step, 2 * step
    return _first_between(alleles, max(low, near - step), near, pos)


@kernel
def _first_between(alleles: Alleles, low: int, high: int, pos: int) -> int:
    """Return the first of the rows ``[low, high)`` whose allele lies at ``pos`` or behind, ``high`` if none does."""
    while low < high:
        middle = (low + high) >> 1
        if alleles.pos[middle] < pos:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _is_held_out(alleles: Alleles, site: Site, edits: Integers, alt: Bytes, row: int) -> bool:
    """Tell whether an edit in the reference's normal form is held out; a damaged allele at its place counts as it."""
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
def note_seeds(site: Site, held: Held, room: Room, rows: Integers, n: int, shift: int) -> int:
    """Note the seeds of the bases around edits and begin to load their words; return what ``shows_held_out`` takes.

    That is the number of seeds, more than have room where the whole rule is to be applied without them.
    """
    if site.spells_held:
        return room.notes.shape[0] + 1
    edits, moved, noted = room.edits, shift, 0
    for place in range(n):
        row = rows[place]
        at = edits[row, POS] + moved
        low, high = max(0, at - _CONTEXT_BP), min(site.size, at + edits[row, ALT] + _CONTEXT_BP)
        if low < high:
            write_edited(site, edits, room.alt, rows, n, shift, low, high, room.codes)
            noted = _note(room.codes[: high - low], held.kmers, room.notes, noted)
        moved += edits[row, ALT] - edits[row, REF]
    return noted


@kernel
def shows_held_out(site: Site, held: Held, room: Room, rows: Integers, n: int, shift: int, noted: int) -> bool:
    """Tell whether the bases around edits, with ``noted`` seeds noted, spell a held-out allele in either window."""
    if not _has_noted(held.kmers, room.notes, noted):
        return False
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
