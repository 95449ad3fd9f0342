"""Plan an epoch so that its tuples have the shares of a mix, as nearly as windows and alleles allow.

Planned are the visits of each *stratum* (an origin; reference windows are divided into those with training alleles of
ClinVar, with gnomAD alleles only, and others), and the slots of a visit that take real alleles, as far as the window
has some left. Not here: the order of the visits (``training``), sampling of edits (``edits``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.packages.mix import EDIT_SHARES, PackageMix, Shares, epoch_visits, present_shares
from genolewm_assets.packages.schema import REFERENCE_ORIGIN

Counts: TypeAlias = NDArray[np.int64]

CLINVAR, GNOMAD, INDEL, SNV = "clinvar", "gnomad", "synthetic_indel", "synthetic_snv"
#: Sources in the order of a visit's slots, as codes of ``edits.EDIT_SOURCE_CODES``: their places in EDIT_SHARES.
_SLOT_ORDER = np.array([list(EDIT_SHARES).index(source) for source in (CLINVAR, GNOMAD, INDEL, SNV)], dtype=np.int8)

#: Strata of the reference windows: with ClinVar training alleles, with gnomAD alleles only, with neither.
WITH_CLINVAR, WITH_GNOMAD, WITH_NONE = (f"{REFERENCE_ORIGIN}, {what}" for what in ("clinvar", "gnomad only", "none"))

#: A stratum of the reference is visited at least this often, as a share of an even distribution, so that windows
#: without a real allele stay in training.
_LEAST = 0.25

#: More alleles of a window are not counted; no visit has as many slots.
_MOST_ALLELES = 2**16 - 1

#: Windows that are counted at once.
_AT_ONCE = 1 << 20

#: Steps of a bisection; the result is exact to 2**-40.
_STEPS = 40

# Multiples of these irrational numbers, modulo 1, are spread evenly over [0, 1), and independently of each other.
_GOLDEN, _ROOT_2 = 0.6180339887498949, 0.4142135623730951


class PlacedWindows(Protocol):
    """Windows of which alleles are counted."""

    def __len__(self) -> int:
        """Return the number of windows."""
        ...

    def spans(self, first_bp: int, last_bp: int) -> Iterator[tuple[str, Counts, Counts, Counts]]:
        """Yield contig, starts and ends of the inner bases, and rows of the placed windows, contig by contig."""
        ...

    def origin_codes(self) -> tuple[tuple[str, ...], NDArray[np.int16]]:
        """Return the names of origins, and the index of every window's."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class WindowAlleles:
    """Real alleles that edits of each window can use."""

    #: Names of origins.
    origin_names: tuple[str, ...]
    #: Origin of every window: int16, shape (n_windows,), index in ``origin_names``.
    origin: NDArray[np.int16]
    #: ``clinvar``, ``gnomad``: number of alleles in the window's inner bases, at most 65,535: uint16, shape
    #: (n_windows,); 0 for windows without exact placement.
    clinvar: NDArray[np.uint16]
    gnomad: NDArray[np.uint16]

    @classmethod
    def count(cls, windows: PlacedWindows, real: Mapping[Any, Any], first_bp: int, last_bp: int) -> WindowAlleles:
        """Count the alleles in the bases of every window but the first ``first_bp`` and the last ``last_bp``.

        ``real`` has the ``AlleleIndex`` of each source, by its name.
        """
        found = {source: np.zeros(len(windows), dtype=np.uint16) for source in (CLINVAR, GNOMAD)}
        for contig, starts, ends, rows in windows.spans(first_bp, last_bp):
            for source in found.keys() & real.keys():
                found[source][rows] = np.minimum(real[source].count(contig, starts, ends), _MOST_ALLELES)
        return cls(*windows.origin_codes(), found[CLINVAR], found[GNOMAD])

    def windows_by_origin(self) -> dict[str, int]:
        """Return the number of windows of every origin that has one, by its name, sorted."""
        sizes = _count(self.origin, len(self.origin_names)).tolist()
        return {name: n for name, n in sorted(zip(self.origin_names, sizes, strict=True)) if n}

    def windows_by_stratum(self) -> dict[str, int]:
        """Return the number of windows of every stratum that has one, by its name, sorted."""
        names, code = self.strata()
        return dict(zip(names, _count(code, len(names)).tolist(), strict=True))

    def strata(self) -> tuple[tuple[str, ...], NDArray[np.int16]]:
        """Return the strata that have a window, sorted, and that of every window: int16, shape (n_windows,)."""
        others = [name for name in self.origin_names if name != REFERENCE_ORIGIN]
        names = np.array(sorted({WITH_CLINVAR, WITH_GNOMAD, WITH_NONE, *others}))
        place = {name: at for at, name in enumerate(names.tolist())}
        code = np.array([place.get(name, -1) for name in (*self.origin_names, "")], dtype=np.int16)[self.origin]
        of_reference = code < 0
        code[of_reference] = place[WITH_NONE]
        code[of_reference & (self.gnomad > 0)] = place[WITH_GNOMAD]
        code[of_reference & (self.clinvar > 0)] = place[WITH_CLINVAR]
        present = _count(code, len(names)) > 0
        return tuple(names[present].tolist()), (np.cumsum(present) - 1).astype(np.int16)[code]


@dataclass(frozen=True, slots=True, eq=False)
class SlotPlan:
    """Source of every slot of a visit; a level of 2.3 is 3 in three of ten visits, and 2 in the others."""

    alleles: WindowAlleles
    n_edits: int
    #: ``clinvar_level``, ``gnomad_level``: most slots of a visit that take an allele of the source, to six decimals.
    clinvar_level: float
    gnomad_level: float
    #: Share of the other slots, which are synthetic, that take an indel, 0 to 1.
    indel_share: float

    def plans(self, ordinals: Counts, rows: Counts) -> NDArray[np.int8]:
        """Return the source of every slot of visits, by ``_SLOT_ORDER``: int8, shape (n_visits, n_edits).

        Visits are given by their number in the epoch and the row of their window.
        """
        dither = ordinals * _GOLDEN % 1
        level = np.minimum(self.alleles.clinvar[rows].astype(np.float64), self.clinvar_level)
        other = np.minimum(self.gnomad_level, self.n_edits - level)
        # One dither for both, so that a slot that ClinVar leaves is gnomAD's, and the means are the levels.
        clinvar = (level + dither).astype(np.int64)
        gnomad = np.minimum(self.alleles.gnomad[rows], (level + other + dither).astype(np.int64) - clinvar)
        rest = self.n_edits - clinvar - gnomad
        indels = (rest * self.indel_share + ordinals * _ROOT_2 % 1).astype(np.int64)
        ends = np.stack((clinvar, clinvar + gnomad, clinvar + gnomad + indels), axis=1)
        codes: NDArray[np.int8] = _SLOT_ORDER[(np.arange(self.n_edits)[None, :, None] >= ends[:, None, :]).sum(axis=2)]
        return codes


@dataclass(frozen=True, slots=True, eq=False)
class EpochPlan:
    """Visits and slots of an epoch."""

    #: Mean visits per epoch by stratum.
    visits: Mapping[str, float]
    #: Plan of the slots.
    slots: SlotPlan
    #: Shares of tuples that this plan gives, by origin and by source of the edit.
    shares: Shares


def plan_epoch(alleles: WindowAlleles, mix: PackageMix, *, n_edits: int, n_visits: int | None = None) -> EpochPlan:
    """Plan an epoch.

    Parameters
    ----------
    n_edits
        Slots per visit.
    n_visits
        Visits of an epoch; None: as many as visit each reference window once on average or, if the mix has no
        reference windows, as many as there are windows.

    Raises
    ------
    ConfigurationError
        If no origin of the mix has a window, or ``n_visits`` is less than 1.

    Notes
    -----
    Origins are visited in the wanted shares. Inside the reference, windows with ClinVar alleles are visited more
    often, up to ``max_visits``, until ClinVar's share is reached, then those with gnomAD alleles. If the reference
    windows have too few slots for both shares, both are reduced in proportion.
    """
    windows = alleles.windows_by_origin()
    shares = present_shares(mix.wanted.windows, set(windows))
    total = epoch_visits(shares, windows)
    if not shares or (n_visits is not None and n_visits < 1):
        raise ConfigurationError(
            "training windows",
            "none to visit",
            expected=f"windows of at least one of {sorted(mix.wanted.windows)}, and at least one per epoch",
            got=f"{len(alleles.origin)} windows of {sorted(windows)}, {n_visits or 0} per epoch",
        )
    solver = _Solver(alleles, {name: share * total for name, share in shares.items()}, n_edits, mix.max_visits)
    plan = solver.solve(mix.wanted.edits)
    # A shorter or longer epoch is a part, or several, of the planned one.
    scale = 1.0 if n_visits is None else n_visits / sum(plan.visits.values())
    return replace(plan, visits={name: n * scale for name, n in plan.visits.items()})


class _Solver:
    """Visits and levels for wanted shares of real edits; windows with equal stratum and allele numbers form a group."""

    def __init__(self, alleles: WindowAlleles, visits: Mapping[str, float], n_edits: int, max_visits: int) -> None:
        self._alleles, self._visits, self._n = alleles, visits, n_edits
        # In an epoch a window is visited up to once more than its stratum's visits per window, rounded up.
        self._most = max_visits - 1
        self._total = sum(visits.values()) * n_edits
        #: At most half of the slots of a visit take ClinVar alleles, so that gnomAD's have room.
        self._half = max(1, n_edits // 2)
        names, code = alleles.strata()
        shape = (len(names), self._half + 1, n_edits + 1)
        sizes = np.zeros(np.prod(shape), dtype=np.int64)
        for part in _parts(len(code)):
            columns = np.minimum(alleles.clinvar[part], self._half), np.minimum(alleles.gnomad[part], n_edits)
            sizes += _count(np.ravel_multi_index((code[part], *columns), shape), len(sizes))
        groups = np.flatnonzero(sizes)
        self._names, self._size = list(names), sizes[groups]
        self._stratum, self._clinvar, self._gnomad = np.unravel_index(groups, shape)
        self._windows = np.bincount(self._stratum, weights=self._size, minlength=len(names))

    def solve(self, wanted: Mapping[str, float]) -> EpochPlan:
        """Return the plan of the epoch for wanted shares by source of the edit."""
        clinvar, gnomad = wanted.get(CLINVAR, 0.0), wanted.get(GNOMAD, 0.0)
        # What each source can give if the other has no slot.
        clinvar, gnomad = self._reached(clinvar, 0.0)[0], self._reached(0.0, gnomad)[1]

        def fits(factor: float) -> bool:
            reached = self._reached(clinvar * factor, gnomad * factor)
            return reached[0] >= clinvar * factor - 1e-9 and reached[1] >= gnomad * factor - 1e-9

        factor = _largest(fits, 1.0)
        density, *levels = self._place(clinvar * factor, gnomad * factor)
        levels = [round(level, 6) for level in levels]
        real = self._served(density, *levels)
        synthetic = wanted.get(SNV, 0.0), wanted.get(INDEL, 0.0)
        indels = synthetic[1] / sum(synthetic) if sum(synthetic) else 0.0
        rest = 1 - sum(real)
        shares = Shares(
            {name: n * self._n / self._total for name, n in self._visits.items()},
            {GNOMAD: real[1], SNV: rest * (1 - indels), INDEL: rest * indels, CLINVAR: real[0]},
        )
        visits = {name: float(n) for name, n in zip(self._names, density * self._windows, strict=True) if n > 0}
        return EpochPlan(visits, SlotPlan(self._alleles, self._n, levels[0], levels[1], round(indels, 6)), shares)

    def _reached(self, clinvar: float, gnomad: float) -> tuple[float, float]:
        """Return the shares of ClinVar and gnomAD edits that are reached if these are wanted."""
        return self._served(*self._place(clinvar, gnomad))

    def _place(self, clinvar: float, gnomad: float) -> tuple[NDArray[np.float64], float, float]:
        """Return visits per window of each stratum, and the levels, for wanted shares of ClinVar and gnomAD."""
        density = self._even()
        here = {name: self._names.index(name) for name in (WITH_CLINVAR, WITH_GNOMAD, WITH_NONE) if name in self._names}
        if WITH_CLINVAR in here:
            self._raise(density, here, WITH_CLINVAR, source=0, wanted=clinvar, levels=(self._half, 0))
        level = _largest(lambda k: self._served(density, k, 0)[0] <= clinvar + 1e-12, float(self._half))
        for name in (WITH_GNOMAD, WITH_CLINVAR):
            if name in here:
                self._raise(density, here, name, source=1, wanted=gnomad, levels=(level, self._n))
        level = _largest(lambda k: self._served(density, k, 0)[0] <= clinvar + 1e-12, float(self._half))
        other = _largest(lambda k: self._served(density, level, k)[1] <= gnomad + 1e-12, float(self._n))
        return density, level, other

    def _even(self) -> NDArray[np.float64]:
        """Return the visits per window of each stratum if every window of an origin is visited equally often."""
        reference = [name.startswith(f"{REFERENCE_ORIGIN},") for name in self._names]
        windows = dict(zip(self._names, self._windows.tolist(), strict=True))
        windows[REFERENCE_ORIGIN] = float(self._windows[reference].sum())
        origins = [REFERENCE_ORIGIN if own else name for own, name in zip(reference, self._names, strict=True)]
        return np.array([self._visits.get(origin, 0.0) / windows[origin] for origin in origins])

    def _raise(
        self,
        density: NDArray[np.float64],
        here: Mapping[str, int],
        name: str,
        *,
        source: int,
        wanted: float,
        levels: tuple[float, float],
    ) -> None:
        """Visit a stratum more often until a source (0: ClinVar, 1: gnomAD) has its share; change ``density`` in place.

        The visits are taken from the strata whose windows give less of it, first from windows without a real allele.
        """
        at, least = here[name], self._even() * _LEAST
        yields = [self._served(one, *levels)[source] for one in np.eye(len(density))]
        for giver in (here[giver] for giver in (WITH_NONE, WITH_GNOMAD) if giver in here and giver != name):
            lacking = wanted - self._served(density, *levels)[source]
            net = yields[at] / self._windows[at] - yields[giver] / self._windows[giver]
            if lacking <= 0 or net <= 0:
                continue
            room = (self._most - density[at]) * self._windows[at]
            spare = (density[giver] - least[giver]) * self._windows[giver]
            taken = max(0.0, min(lacking / net, room, spare))
            density[giver] -= taken / self._windows[giver]
            density[at] += taken / self._windows[at]

    def _served(self, density: NDArray[np.float64], clinvar: float, gnomad: float) -> tuple[float, float]:
        """Return the shares of ClinVar and gnomAD edits for given levels."""
        visits = density[self._stratum] * self._size
        taken = np.minimum(self._clinvar, clinvar)
        others = np.minimum(np.minimum(self._gnomad, gnomad), self._n - taken)
        return float(visits @ taken / self._total), float(visits @ others / self._total)


def _count(codes: NDArray[np.integer[Any]], n: int) -> Counts:
    """Return how often each code below ``n`` is there: int64, shape (n,)."""
    # NumPy makes a copy of 8 bytes a code.
    return sum((np.bincount(codes[part], minlength=n) for part in _parts(len(codes))), np.zeros(n, dtype=np.int64))


def _parts(n: int) -> Iterator[slice]:
    return (slice(at, at + _AT_ONCE) for at in range(0, n, _AT_ONCE))


def _largest(holds: Callable[[float], bool], most: float) -> float:
    """Return the largest number in ``[0, most]`` for which ``holds`` is true; it is true from 0 up to that number."""
    if holds(most):
        return most
    low, high = 0.0, most
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
