"""Normal form of alleles on a circular contig, also for alleles at or across the origin.

On a circle of L bases an allele may also be written on the other side of the origin, or across it. Its normal form:

- ``pos``, 1 to L, is the position of the first base of ``ref``;
- ``ref`` may wrap from base L to base 1, so that ``pos + len(ref) - 1`` may exceed L;
- both alleles are trimmed, and an insertion or deletion is moved as far left as possible, across the origin too;
- an insertion or deletion keeps the base before it as anchor; the base before base 1 is base L.

An insertion or deletion does not move across an N of the reference, such as rCRS's placeholder at 3,107.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import NamedTuple

from genolewm_assets.errors import AlleleError, IntervalError, ReferenceMismatchError
from genolewm_assets.genome import Variant, normalise, pos_from_start, start_from_pos

_PLACEHOLDER = ord("N")


class ChangedBase(NamedTuple):
    """The base of an allele at one place of the circle, upper case; empty if the allele deletes it."""

    #: 0-based on the reference.
    start: int
    #: n for the n-th base inserted after ``start``, 0 for the base itself.
    insertion: int
    base: str


def normalise_on_circle(variant: Variant, reference: bytes) -> Variant:
    """Return the normal form, as in this module's docstring, of an allele whose ``ref`` may wrap across the origin.

    An insertion or deletion of the unit of a contig that repeats this unit all round has no left-most position; its
    anchor is base 1. IntervalError, AlleleError or ReferenceMismatchError is raised if ``pos`` is beyond the contig,
    ``ref`` is longer than it or differs from ``reference``.
    """
    length, where = len(reference), f"{variant.chrom}:{variant.pos}"
    if variant.pos > length:
        raise IntervalError(where, "pos is beyond the circle", expected=f"1 to {length}", got=f"{variant.pos}")
    if len(variant.ref) > length:
        expected, got = f"up to {length} bases", f"{len(variant.ref)}"
        raise AlleleError(where, "ref is longer than the circle", expected=expected, got=got)
    end = start_from_pos(variant.pos) + len(variant.ref)
    # The circle is unrolled into a line with enough turns left of the allele to move an indel by a whole turn; an
    # insertion longer than a turn needs more, because it is first compared with itself.
    turns = 0 if end <= length and not variant.is_indel else 2 + len(variant.alt) // length
    unrolled = reference * (turns + 1 + (end > length))
    try:
        moved = normalise(Variant(variant.chrom, variant.pos + turns * length, variant.ref, variant.alt), unrolled)
    except ReferenceMismatchError as err:
        # The error names the position on the circle, not the unrolled one.
        raise ReferenceMismatchError(where, err.problem, expected=err.expected, got=err.got, remedy=err.remedy) from err
    return _from_start(variant.chrom, start_from_pos(moved.pos) % length, moved.ref, moved.alt)


def move_right_on_circle(variant: Variant, reference: bytes) -> Variant:
    """Return an insertion or deletion moved as far 3' as possible, as in standard names (``309.1C``, ``8281-8289d``).

    It is trimmed and keeps the base before it as anchor; other alleles are returned in the normal form. The 3' rule:
    Wilson et al. 2002; HGVS. Errors are those of :func:`normalise_on_circle`.
    """
    found = normalise_on_circle(variant, reference)
    if len(found.ref) == len(found.alt) or 1 not in {len(found.ref), len(found.alt)} or found.ref[0] != found.alt[0]:
        return found
    length = len(reference)
    after = start_from_pos(found.pos) + len(found.ref)
    mirror = _from_start(found.chrom, -after % length, found.ref[::-1], found.alt[::-1])
    moved = normalise_on_circle(mirror, reference[::-1])
    # The reversed allele has the base after the event as anchor. The base before the moved event is the last one that
    # the event moved across.
    event_start = -(start_from_pos(moved.pos) + len(moved.ref)) % length
    before = (event_start - 1) % length
    inserted, deleted = moved.alt[:0:-1], moved.ref[:0:-1]
    base = found.ref[0] if before == start_from_pos(found.pos) else (inserted + deleted)[-1]
    return _from_start(found.chrom, before, base + deleted, base + inserted)


def changed_bases(variant: Variant, reference: bytes) -> tuple[ChangedBase, ...]:
    """Return the places at which an allele differs from the reference, as in alignments and standard names.

    An insertion or deletion is placed as far 3' as possible. The bases of ``ref`` and ``alt`` are paired from the
    first; the remaining bases of the longer one are inserted or deleted. A base paired with a placeholder N, or
    inserted after it, counts as inserted before the N. Errors are those of :func:`normalise_on_circle`.
    """
    moved = move_right_on_circle(variant, reference)
    start, length = start_from_pos(moved.pos), len(reference)
    found, after, nth = [], start - 1, 0
    for offset, (ref, alt) in enumerate(zip_longest(moved.ref, moved.alt, fillvalue="")):
        place = (start + offset) % length
        if alt and (not ref or (reference[place] == _PLACEHOLDER and alt != ref)):
            while reference[after % length] == _PLACEHOLDER:
                after -= 1
            nth += 1
            found.append(ChangedBase(after % length, nth, alt))
            continue
        after, nth = start + offset, 0
        if alt != ref:
            found.append(ChangedBase(place, 0, alt))
    return tuple(found)


def _from_start(chrom: str, start: int, ref: str, alt: str) -> Variant:
    """Return the variant whose ``ref`` begins at the 0-based position ``start``."""
    return Variant(chrom, pos_from_start(start), ref, alt)
