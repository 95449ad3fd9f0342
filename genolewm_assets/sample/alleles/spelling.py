"""How alleles are written into records: most of them plainly, some the ways that real files have and readers must undo.

Planted here: indels shifted right, alleles padded with flank, several alleles in one record, the same allele twice, REF
that is not the reference, ``*``.
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
    """One line of a VCF: ``pos`` is 1-based; ``rows`` holds for each of ``alts`` the allele whose counts it shows."""

    pos: int
    ref: str
    alts: tuple[str, ...]
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Plants:
    """How many records of each kind to plant in one contig."""

    merged: int = 15
    right_shifted: int = 12
    padded: int = 12
    duplicates: int = 3
    mismatches: int = 4
    spanning: int = 2


def shift_right(allele: Variant, text: str) -> Variant:
    """Return an anchored insertion or deletion at the rightmost place that gives the same sequence."""
    start, deletion = allele.pos - 1, len(allele.ref) > len(allele.alt)
    body = (allele.ref if deletion else allele.alt)[1:]
    following = start + 1 + (len(body) if deletion else 0)
    while following < len(text) and text[following] == body[0]:
        body, start, following = body[1:] + body[0], start + 1, following + 1
    anchor = text[start]
    ref, alt = (anchor + body, anchor) if deletion else (anchor, anchor + body)
    return Variant(allele.chrom, start + 1, ref, alt)


def pad(allele: Variant, text: str, left: int, right: int) -> Variant:
    """Return the allele with ``left`` and ``right`` bases of flank in both of its sequences."""
    start, end = allele.pos - 1, allele.pos - 1 + len(allele.ref)
    before, after = text[start - left : start], text[end : end + right]
    return Variant(allele.chrom, allele.pos - left, before + allele.ref + after, before + allele.alt + after)


def merge(alleles: tuple[Variant, ...], rows: tuple[int, ...], text: str) -> Record:
    """Return one record that holds all of the alleles, over their common footprint."""
    start = min(a.pos for a in alleles) - 1
    end = max(a.pos - 1 + len(a.ref) for a in alleles)
    alts = tuple(text[start : a.pos - 1] + a.alt + text[a.pos - 1 + len(a.ref) : end] for a in alleles)
    return Record(start + 1, text[start:end], alts, rows)


def choose_heads(sites: Sites, plants: Plants, *, key: int) -> I64:
    """Return for each allele the first allele of its record: neighbours of the planted merges share one.

    Partners lie within 8 bp; no allele is in two merges.
    """
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

    Parameters
    ----------
    well_called
        bool, one per allele: those that a consumer would keep. Rejects are planted on them, to be nothing else besides.
    text
        Upper-case sequence of the contig.
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
    """Return records that must not survive: copies under another spelling, a wrong REF, ``*`` as ALT."""
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
