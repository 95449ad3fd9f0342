"""Convert the heteroplasmy calls of one sample to a level for each base of its genome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from statistics import fmean
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.errors import AlleleError, InputError, IntervalError
from genolewm_assets.genome import Variant
from genolewm_assets.mito.genomes import PLACEHOLDER, CirclePlacement
from genolewm_assets.mito.variants.circular_alleles import changed_bases, normalise_on_circle

#: FILTER values of calls that count: PASS, or ``.`` for calls to which no filter was applied.
COUNTED_FILTERS = frozenset({"PASS", "."})

_CONTIG = "chrM"

_Place: TypeAlias = tuple[int, int]
_Shares: TypeAlias = dict[_Place, dict[str, float]]
_Position = TypeVar("_Position", int, NDArray[np.int64])


class HeteroplasmyCall(NamedTuple):
    """One alternate allele called in one sample."""

    sample: str
    #: ``pos``, ``ref``, ``alt``: POS (1-based), REF and ALT of the VCF; ``alt`` may be symbolic (``*``, ``<DEL>``).
    pos: int
    ref: str
    alt: str
    #: Heteroplasmy level: share of the sample's mtDNA copies that have the allele, 0 to 1.
    level: float
    #: PASS, ``.``, or the failed filters of record and sample, separated by ``;``.
    filter: str


class CallDrop(StrEnum):
    """Reason why a call does not count."""

    OTHER_CONTIG = "other_contig"
    #: The record or the sample failed a filter.
    FILTERED = "filtered"
    #: ALT is symbolic (``*``, ``<DEL>``), contains an ambiguous base, or equals REF.
    NOT_A_SEQUENCE = "not_a_sequence"
    #: Another call of the sample has the same allele, normalised on the circle, and the same level.
    DUPLICATE = "duplicate"
    #: Likewise with another level; the mean of both counts.
    CONFLICTING_RECORDS = "conflicting_records"
    #: No genome has the name of the sample.
    NO_GENOME = "no_genome"


def levels_of_genome(
    calls: Iterable[HeteroplasmyCall], reference: bytes, genome: CirclePlacement
) -> tuple[NDArray[np.float32], Counter[CallDrop]]:
    """Return the share of a sample's mtDNA copies that differ from its genome, for each base of the genome.

    Parameters
    ----------
    calls
        Calls of one sample.
    reference
        One turn of the circle that calls and coordinates refer to, upper-case ASCII.

    Returns
    -------
    levels : ndarray
        float32, shape (n_bases of the genome,), 0 to 1; 0 for a base without a call.
    dropped : Counter
        Number of calls that do not count, by reason.

    Raises
    ------
    InputError
        If a call that counts has a level that is NaN or outside 0 to 1, a REF that differs from the reference, or a
        position beyond the circle; if the calls are of two samples; or if two bases of the genome have the same place
        on the circle.

    Notes
    -----
    At each place, copies without a called allele have the reference's base. If the genome's base there is a called
    allele, its level is 1 minus the level of that allele. Otherwise its level is the sum of the levels of the called
    alleles that differ from it, at most 1. An ambiguous base of the genome counts as the reference's base.

    :func:`~genolewm_assets.mito.variants.circular_alleles.changed_bases` gives the places that a call changes. If the
    genome has no base at such a place (an insertion in some copies, a deletion missing in some copies), the share of
    the copies that have a base there is assigned to the base before it, unless that base has a higher level.
    """
    keys, order = _ordered_places(genome, len(reference))
    shares, dropped = _shares(calls, reference)
    levels = np.zeros(len(genome.sequence), dtype=np.float32)
    for place, found in shares.items() if len(keys) else ():
        key = _key(*place)
        # The last base whose place is not after this one; index -1, the last base, if there is none.
        at = int(np.searchsorted(keys, key, side="right")) - 1
        base = int(order[at])
        own = genome.sequence[base] if keys[at] == key else ""
        default = chr(reference[place[0]])
        # No base at an inserted place and at a placeholder.
        default = "" if place[1] or default == PLACEHOLDER else default
        levels[base] = max(levels[base], _differing_share(found, own, default))
    return levels, dropped


def _differing_share(shares: Mapping[str, float], own: str, default: str) -> float:
    """Return the share of the copies that differ from the genome's own base; uncalled copies have ``default``."""
    if own and own not in "ACGT":
        own = default
    if own in shares and own != default:
        return max(0.0, 1.0 - shares[own])
    return min(1.0, sum(level for base, level in shares.items() if base != own))


def _shares(calls: Iterable[HeteroplasmyCall], reference: bytes) -> tuple[_Shares, Counter[CallDrop]]:
    """Return the share of the copies that have each called base, by place, and the calls that do not count."""
    shares: _Shares = {}
    dropped: Counter[CallDrop] = Counter()
    levels: dict[Variant, list[float]] = {}
    sample: str | None = None
    for call in calls:
        sample = call.sample if sample is None else sample
        if call.sample != sample:
            raise InputError("heteroplasmy calls", "are of two samples", expected=repr(sample), got=repr(call.sample))
        allele = _allele(call, reference)
        if isinstance(allele, CallDrop):
            dropped[allele] += 1
        else:
            levels.setdefault(allele, []).append(call.level)
    for allele, stated in levels.items():
        if len(stated) > 1:
            reason = CallDrop.DUPLICATE if len(set(stated)) == 1 else CallDrop.CONFLICTING_RECORDS
            dropped[reason] += len(stated) - 1
        for place in changed_bases(allele, reference):
            found = shares.setdefault((place.start, place.insertion), {})
            found[place.base] = found.get(place.base, 0.0) + fmean(stated)
    return shares, dropped


def _allele(call: HeteroplasmyCall, reference: bytes) -> Variant | CallDrop:
    """Return the allele of a call, normalised on the circle, or the reason why the call does not count."""
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
        raise InputError(where, "heteroplasmy level out of range", expected="0 to 1", got=f"{call.level}")
    try:
        return normalise_on_circle(allele, reference)
    except InputError as err:
        remedy = "Check that the calls are on rCRS (NC_012920.1)"
        raise type(err)(where, err.problem, expected=err.expected, got=err.got, remedy=remedy) from err


def _ordered_places(genome: CirclePlacement, length: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return sort keys of the bases' places, ascending, and the indices of the bases in that order, both int64."""
    where, shape = "coordinates of the genome", (len(genome.sequence),)
    coordinates, insertion = np.asarray(genome.coordinates), np.asarray(genome.insertion)
    if coordinates.shape != shape or insertion.shape != shape:
        expected, got = f"two arrays of shape {shape}", f"{coordinates.shape}, {insertion.shape}"
        raise InputError(where, "not one place per base", expected=expected, got=got)
    if shape[0] and (coordinates.min() < 0 or coordinates.max() >= length or insertion.min() < 0):
        expected = f"0 to {length - 1}, insertion at least 0"
        got = f"{coordinates.min()} to {coordinates.max()}, insertion from {insertion.min()}"
        raise InputError(where, "are beyond the circle", expected=expected, got=got)
    keys = _key(coordinates.astype(np.int64), insertion.astype(np.int64))
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    repeated = np.flatnonzero(keys[1:] == keys[:-1])
    if repeated.size:
        bases = order[repeated[0] : repeated[0] + 2].tolist()
        raise InputError(where, f"bases {bases[0]} and {bases[1]} (0-based) have the same place")
    return keys, order


def _key(start: _Position, insertion: _Position) -> _Position:
    """Return a sort key that orders places along the circle: by position, then by number of the inserted base."""
    return (start << 16) + insertion
