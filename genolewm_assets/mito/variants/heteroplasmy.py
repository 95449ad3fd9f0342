"""One genome's own heteroplasmy: its calls of alleles and their levels -> a level for each of its bases.

Not here: reading calls (``sources.mtdna_heteroplasmy``), where a genome's bases belong on the reference
(``alignment``), pooling levels into tokens (``tokens``), what the population has at a site (``variants``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.errors import AlleleError, InputError, IntervalError
from genolewm_assets.genome import Variant
from genolewm_assets.mito.genomes import PLACEHOLDER, CirclePlacement
from genolewm_assets.mito.variants.circular_alleles import changed_bases, normalise_on_circle

#: FILTER of calls that count: passed, or never filtered.
COUNTED_FILTERS = frozenset({"PASS", "."})

_CONTIG = "chrM"

_Place: TypeAlias = tuple[int, int]
_Shares: TypeAlias = dict[_Place, dict[str, float]]
_Position = TypeVar("_Position", int, NDArray[np.int64])


class HeteroplasmyCall(NamedTuple):
    """One alternate allele that a caller found in one sample.

    Attributes
    ----------
    sample
        Name of the sample.
    pos, ref, alt
        As the VCF has them, 1-based; ``alt`` may be no sequence (``*``, ``<DEL>``).
    level
        Share of the sample's copies that have the allele, 0 to 1.
    filter
        PASS, ``.``, or the failed filters of record and sample with ``;`` between.
    """

    sample: str
    pos: int
    ref: str
    alt: str
    level: float
    filter: str


class CallDrop(StrEnum):
    """Why a call does not count.

    ``other_contig``: it is not on the mitochondrial contig. ``filtered``: the record or the sample failed a filter.
    ``not_a_sequence``: ``*``, ``<DEL>``, an ambiguous base and the like, or an ALT equal to REF. ``duplicate``: the
    sample has a call of the same allele, normalised on the circle, before this one. ``no_genome``: there is no genome
    of the sample's name.
    """

    OTHER_CONTIG = "other_contig"
    FILTERED = "filtered"
    NOT_A_SEQUENCE = "not_a_sequence"
    DUPLICATE = "duplicate"
    NO_GENOME = "no_genome"


def levels_of_genome(
    calls: Iterable[HeteroplasmyCall], reference: bytes, genome: CirclePlacement
) -> tuple[NDArray[np.float32], Counter[CallDrop]]:
    """Return the share of a sample's copies that differ from its genome at each of the genome's bases.

    Parameters
    ----------
    calls
        Of one sample.
    reference
        One turn of the circle that calls and coordinates refer to, upper-case ASCII.
    genome
        The same sample's genome, laid along the reference.

    Returns
    -------
    levels : ndarray
        float32, 0 to 1, shape (n_bases of the genome,); 0 where there is no call.
    dropped : Counter
        Calls that do not count, by reason.

    Raises
    ------
    InputError
        On a level that is NaN or outside 0 to 1, a REF that differs from the reference or a position off the circle
        (of calls that count), on calls of two samples, or unless each base has its own place on the circle.

    Notes
    -----
    At each place the copies without a called allele have the reference's base. A base of the genome that a call names
    has the level 1 - (level of that allele); one that is the reference's has the sum of the others' levels, at most 1.
    So has a base that is neither; an ambiguous one counts as the reference's.

    A call changes the places that :func:`~genolewm_assets.mito.variants.circular_alleles.changed_bases` names. Where
    the genome has no base at such a place (an insertion that only some copies have, a deletion that only some lack),
    the share of the copies that have one is the level of the base before it, unless that base's own is higher.
    """
    keys, order = _ordered_places(genome, len(reference))
    shares, dropped = _shares(calls, reference)
    levels = np.zeros(len(genome.sequence), dtype=np.float32)
    for place, found in shares.items() if len(keys) else ():
        key = _key(*place)
        # Before the first base stands the last one: index -1.
        at = int(np.searchsorted(keys, key, side="right")) - 1
        base = int(order[at])
        own = genome.sequence[base] if keys[at] == key else ""
        levels[base] = max(levels[base], _differing(found, own, _default(place, reference)))
    return levels, dropped


def _differing(shares: Mapping[str, float], own: str, default: str) -> float:
    """Return the share of the copies that differ from the genome's own base; those of no allele have the default."""
    if own and own not in "ACGT":
        own = default
    if own in shares and own != default:
        return max(0.0, 1.0 - shares[own])
    return min(1.0, sum(level for base, level in shares.items() if base != own))


def _default(place: _Place, reference: bytes) -> str:
    """Return the reference's base at a place: none behind a base, and none at a placeholder."""
    base = chr(reference[place[0]])
    return "" if place[1] or base == PLACEHOLDER else base


def _shares(calls: Iterable[HeteroplasmyCall], reference: bytes) -> tuple[_Shares, Counter[CallDrop]]:
    """Return the share of the copies that have each called base, by the places that calls change."""
    shares: _Shares = {}
    dropped: Counter[CallDrop] = Counter()
    seen: set[Variant] = set()
    sample: str | None = None
    for call in calls:
        sample = call.sample if sample is None else sample
        if call.sample != sample:
            raise InputError("heteroplasmy calls", "are of two samples", expected=repr(sample), got=repr(call.sample))
        allele = _allele(call, reference)
        if isinstance(allele, CallDrop) or allele in seen:
            dropped[allele if isinstance(allele, CallDrop) else CallDrop.DUPLICATE] += 1
            continue
        seen.add(allele)
        for place in changed_bases(allele, reference):
            found = shares.setdefault((place.start, place.insertion), {})
            found[place.base] = found.get(place.base, 0.0) + call.level
    return shares, dropped


def _allele(call: HeteroplasmyCall, reference: bytes) -> Variant | CallDrop:
    """Return the allele of a call, normalised on the circle, or why it does not count."""
    where = f"sample {call.sample!r}, {call.pos} {call.ref}>{call.alt}"
    if call.filter not in COUNTED_FILTERS:
        return CallDrop.FILTERED
    try:
        allele = Variant(_CONTIG, call.pos, call.ref, call.alt)
    except AlleleError:
        return CallDrop.NOT_A_SEQUENCE
    except IntervalError as err:
        raise IntervalError(where, err.problem, expected=err.expected, got=err.got) from err
    # Written so that NaN, which compares as false, is caught too.
    if not 0.0 <= call.level <= 1.0:
        raise InputError(where, "impossible heteroplasmy level", expected="0 to 1", got=f"{call.level}")
    try:
        return normalise_on_circle(allele, reference)
    except InputError as err:
        remedy = "Check that the calls are on rCRS (NC_012920.1)"
        raise type(err)(where, err.problem, expected=err.expected, got=err.got, remedy=remedy) from err


def _ordered_places(genome: CirclePlacement, length: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places of a genome's bases in their order on the circle, as numbers, and the base at each."""
    shape = (len(genome.sequence),)
    coordinates, insertion = np.asarray(genome.coordinates), np.asarray(genome.insertion)
    if coordinates.shape != shape or insertion.shape != shape:
        raise InputError(
            "coordinates of the genome",
            "not one place per base",
            expected=f"two arrays of shape {shape}",
            got=f"{coordinates.shape}, {insertion.shape}",
        )
    if shape[0] and (coordinates.min() < 0 or coordinates.max() >= length or insertion.min() < 0):
        raise InputError(
            "coordinates of the genome",
            "off the circle",
            expected=f"0 to {length - 1}, insertion at least 0",
            got=f"{coordinates.min()} to {coordinates.max()}, insertion from {insertion.min()}",
        )
    keys = _key(coordinates.astype(np.int64), insertion.astype(np.int64))
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    repeated = np.flatnonzero(keys[1:] == keys[:-1])
    if repeated.size:
        bases = order[repeated[0] : repeated[0] + 2].tolist()
        raise InputError("coordinates of the genome", f"bases {bases[0]} and {bases[1]} (0-based) have one place")
    return keys, order


def _key(start: _Position, insertion: _Position) -> _Position:
    """Return a number that orders places as the circle has them."""
    return (start << 16) + insertion
