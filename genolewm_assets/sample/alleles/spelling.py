"""VCF records of alleles: most in normal form, some in other spellings that occur in real files.

Irregular records are: indels shifted right, alleles padded with flanking bases, several alleles in one record, an
allele twice, a REF that differs from the reference, ``*`` as ALT.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.genome import Variant
from genolewm_assets.sample.alleles.sites import Sites
from genolewm_assets.sample.genome import Draws

I64 = NDArray[np.int64]
_NEIGHBOUR_BP = 8


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a VCF; ``pos`` is 1-based, ``rows`` has for each ALT the index of the allele with its counts."""

    pos: int
    ref: str
    alts: tuple[str, ...]
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Plants:
    """Number of irregular records of each kind in one contig.

    ``merged`` records have two ALTs, ``spanning`` have ``*`` as ALT, and ``mismatches`` a wrong REF.
    """

    merged: int = 15
    right_shifted: int = 12
    padded: int = 12
    duplicates: int = 3
    mismatches: int = 4
    spanning: int = 2


def shift_right(allele: Variant, text: str) -> Variant:
    """Return an anchored insertion or deletion moved to the rightmost position that gives the same sequence."""
    start, deletion = allele.pos - 1, len(allele.ref) > len(allele.alt)
    body = (allele.ref if deletion else allele.alt)[1:]
    following = start + 1 + (len(body) if deletion else 0)
    while following < len(text) and text[following] == body[0]:
        body, start, following = body[1:] + body[0], start + 1, following + 1
    anchor = text[start]
    ref, alt = (anchor + body, anchor) if deletion else (anchor, anchor + body)
    return Variant(allele.chrom, start + 1, ref, alt)


def pad(allele: Variant, text: str, left: int, right: int) -> Variant:
    """Return the allele with ``left`` and ``right`` flanking bases added to both REF and ALT."""
    start, end = allele.pos - 1, allele.pos - 1 + len(allele.ref)
    before, after = text[start - left : start], text[end : end + right]
    return Variant(allele.chrom, allele.pos - left, before + allele.ref + after, before + allele.alt + after)


def merge(alleles: tuple[Variant, ...], rows: tuple[int, ...], text: str) -> Record:
    """Return one record of all the alleles, whose REF spans all of their REFs."""
    start = min(a.pos for a in alleles) - 1
    end = max(a.pos - 1 + len(a.ref) for a in alleles)
    alts = tuple(text[start : a.pos - 1] + a.alt + text[a.pos - 1 + len(a.ref) : end] for a in alleles)
    return Record(start + 1, text[start:end], alts, rows)


def choose_heads(sites: Sites, plants: Plants, *, key: int) -> I64:
    """Return for each allele the index of the first allele of its record; ``plants.merged`` have two, within 8 bp."""
    pos = sites.pos
    close = np.flatnonzero(np.diff(pos) <= _NEIGHBOUR_BP)
    apart = close[np.concatenate([[True], np.diff(close) > 1])]
    chosen = apart[Draws(key, 30).sample(apart.size, plants.merged)]
    head = np.arange(pos.size, dtype=np.int64)
    head[chosen + 1] = chosen
    return head


def spell_records(
    sites: Sites, head: I64, well_called: NDArray[np.bool_], text: str, plants: Plants, *, key: int
) -> list[Record]:
    """Return the records of a contig in file order.

    Rejected records are made from ``well_called`` alleles only, which a reader keeps, so that each has exactly one
    reason to be rejected.
    """
    draws = Draws(key, 31)
    alleles = sites.alleles
    alone = np.bincount(head, minlength=head.size) == 1
    indels = np.array([a.is_indel and min(len(a.ref), len(a.alt)) == 1 for a in alleles])
    movable = [i for i in np.flatnonzero(alone & indels).tolist() if shift_right(alleles[i], text) != alleles[i]]
    shifted = {movable[k] for k in draws.sample(len(movable), plants.right_shifted).tolist()}
    plain = np.flatnonzero(alone & ~indels)
    padded = set(plain[draws.sample(plain.size, plants.padded)].tolist())
    records = []
    for i in np.flatnonzero(head == np.arange(head.size)).tolist():
        allele = alleles[i]
        if not alone[i]:
            records.append(merge((allele, alleles[i + 1]), (i, i + 1), text))
            continue
        if i in shifted:
            allele = shift_right(allele, text)
        elif i in padded:
            allele = pad(allele, text, *draws.between(1, 11, 2).tolist())
        records.append(Record(allele.pos, allele.ref, (allele.alt,), (i,)))
    usable = [i for i in plain.tolist() if well_called[i] and i not in padded]
    records += _plant_rejects(sites, usable, text, plants, draws)
    return sorted(records, key=lambda r: (r.pos, r.ref, r.alts))


def _plant_rejects(sites: Sites, usable: list[int], text: str, plants: Plants, draws: Draws) -> list[Record]:
    """Return records that a reader must reject: copies in another spelling, a wrong REF, ``*`` as ALT."""
    wanted = plants.duplicates + plants.mismatches + plants.spanning
    donors = [usable[k] for k in draws.sample(len(usable), wanted).tolist()]
    records = []
    for number, i in enumerate(donors):
        allele = sites.alleles[i]
        if number < plants.duplicates:
            copy = pad(allele, text, *draws.between(1, 6, 2).tolist())
            records.append(Record(copy.pos, copy.ref, (copy.alt,), (i,)))
        elif number < plants.duplicates + plants.mismatches:
            wrong = next(base for base in "ACGT" if base not in (allele.ref, allele.alt))
            records.append(Record(allele.pos, wrong, (allele.alt,), (i,)))
        else:
            records.append(Record(allele.pos, allele.ref, ("*",), (i,)))
    return records
