"""Alleles of a circular contig in one normal form, wherever its numbering begins.

On a line an allele has one normal form (``genome.normalise``). On a circle it may stand on either side of the origin,
or read across it. The normal form here:

- ``pos`` is from 1 to L, the contig's length, and names the first base of ``ref``;
- ``ref`` reads on from base L to base 1 where it has to: ``pos + len(ref) - 1`` may exceed L;
- both alleles are trimmed, and an insertion or deletion stands as far left as it goes, through the origin too;
- an insertion or deletion keeps the base before it, which before base 1 is base L.

Where a linear normal form does not touch the origin the two are equal. Nothing moves across an N of the reference, such
as rCRS's placeholder at 3,107, which differs from every base.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import NamedTuple

from genolewm_assets.errors import AlleleError, IntervalError, ReferenceMismatchError
from genolewm_assets.genome import Variant, normalise, pos_from_start, start_from_pos

_PLACEHOLDER = ord("N")


class ChangedBase(NamedTuple):
    """What an allele has at one place of the circle.

    Attributes
    ----------
    start
        0-based position on the reference.
    insertion
        0: the base at that position; n: the n-th base inserted after it.
    base
        Upper case; empty where the allele has none.
    """

    start: int
    insertion: int
    base: str


def normalise_on_circle(variant: Variant, reference: bytes) -> Variant:
    """Bring an allele of a circular contig into its normal form.

    Parameters
    ----------
    variant
        ``pos`` from 1 to the contig's length; ``ref`` may read on across the origin.
    reference
        One turn of the contig, upper-case ASCII.

    Returns
    -------
    Variant
        The normal form; see the module.

    Raises
    ------
    IntervalError
        If ``pos`` is beyond the contig.
    AlleleError
        If ``ref`` is longer than the contig.
    ReferenceMismatchError
        If ``ref`` differs from the reference.

    Notes
    -----
    Alleles that trim and move into each other get one form. Two kinds have no left-most place or another spelling
    besides; no genome known has them: an event that fits all the way round a contig that repeats it stands behind base
    1, and a substitution of more than half of the contig could be written the other way round.
    """
    length = len(reference)
    _check_on_circle(variant, length)
    end = start_from_pos(variant.pos) + len(variant.ref)
    # Unrolled, the circle is a line on which the allele has turns enough to its left: an event longer than a turn is
    # compared with itself first.
    turns = 0 if end <= length and not variant.is_indel else 2 + len(variant.alt) // length
    unrolled = reference * (turns + 1 + (end > length))
    try:
        moved = normalise(Variant(variant.chrom, variant.pos + turns * length, variant.ref, variant.alt), unrolled)
    except ReferenceMismatchError as err:
        # The unrolled position says nothing to whoever reads the message.
        raise ReferenceMismatchError(
            f"{variant.chrom}:{variant.pos}", err.problem, expected=err.expected, got=err.got, remedy=err.remedy
        ) from err
    return _from_start(variant.chrom, start_from_pos(moved.pos) % length, moved.ref, moved.alt)


def move_right_on_circle(variant: Variant, reference: bytes) -> Variant:
    """Move an insertion or deletion as far 3' as it goes, where the field's names put it (``309.1C``, ``8281-8289d``).

    Returns
    -------
    Variant
        Trimmed; an insertion or deletion keeps the base before it, as in the normal form. Anything else is in the
        normal form.

    Raises
    ------
    IntervalError, AlleleError, ReferenceMismatchError
        As :func:`normalise_on_circle`.

    Notes
    -----
    The 3' rule: Wilson et al. 2002; HGVS. On the mirrored circle, right is left.
    """
    found = normalise_on_circle(variant, reference)
    if len(found.ref) == len(found.alt) or 1 not in {len(found.ref), len(found.alt)} or found.ref[0] != found.alt[0]:
        return found
    length = len(reference)
    after = start_from_pos(found.pos) + len(found.ref)
    mirror = _from_start(found.chrom, -after % length, found.ref[::-1], found.alt[::-1])
    moved = normalise_on_circle(mirror, reference[::-1])
    # The mirror keeps the base behind the event. The one before it, once the event has moved, is the last it passed.
    event_start = -(start_from_pos(moved.pos) + len(moved.ref)) % length
    before = (event_start - 1) % length
    inserted, deleted = moved.alt[:0:-1], moved.ref[:0:-1]
    base = found.ref[0] if before == start_from_pos(found.pos) else (inserted + deleted)[-1]
    return _from_start(found.chrom, before, base + deleted, base + inserted)


def changed_bases(variant: Variant, reference: bytes) -> tuple[ChangedBase, ...]:
    """Return the places at which an allele differs from the reference, as alignment and the field's names place them.

    An insertion or deletion stands as far 3' as it goes. Where alleles of two lengths replace each other, their first
    bases face each other, and the longer one's last are inserted or lost. What faces a placeholder N, or comes behind
    it, is inserted before it.

    Raises
    ------
    IntervalError, AlleleError, ReferenceMismatchError
        As :func:`normalise_on_circle`.
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


def _check_on_circle(variant: Variant, length: int) -> None:
    where = f"{variant.chrom}:{variant.pos}"
    if variant.pos > length:
        raise IntervalError(where, "pos is off the circle", expected=f"1 to {length}", got=f"{variant.pos}")
    if len(variant.ref) > length:
        raise AlleleError(
            where, "ref is longer than the circle", expected=f"up to {length} bases", got=f"{len(variant.ref)}"
        )


def _from_start(chrom: str, start: int, ref: str, alt: str) -> Variant:
    return Variant(chrom, pos_from_start(start), ref, alt)
