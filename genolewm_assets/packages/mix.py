"""Shares of windows and edits over an epoch, and visits that give them. Not here: the plan (``epoch_plan``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.packages.schema import REFERENCE_ORIGIN
from genolewm_assets.windows.corpus import CorpusSource

_EUKARYOTES = CorpusSource.EUKARYOTE_GENERATOR.value

#: Wanted share of tuples by corpus source, 0 to 1 (RFC-0006 §3.1). Reference windows take :data:`REFERENCE_SHARE` of
#: the share of ``eukaryote_generator``.
SOURCE_MIX: Mapping[str, float] = MappingProxyType(
    {
        _EUKARYOTES: 0.50,
        CorpusSource.MRNA_EVO2.value: 0.25,
        CorpusSource.MRNA_SPLICE_EVO2.value: 0.10,
        CorpusSource.PROKARYOTE_EVO2.value: 0.15,
    }
)

#: Share of the eukaryotes' tuples that come from reference windows, because only these have real alleles.
REFERENCE_SHARE = 0.9

#: Wanted share of tuples by source of the edit, 0 to 1: 3, 3, 1 and 1 of 8 (RFC-0006 §3.3).
EDIT_SHARES: Mapping[str, float] = MappingProxyType(
    {"gnomad": 0.375, "synthetic_snv": 0.375, "synthetic_indel": 0.125, "clinvar": 0.125}
)

#: Tuples per window, if a trainer does not say otherwise.
N_EDITS = 8

#: Epochs of which visits are counted.
EPOCHS = 8

# Its multiples, modulo 1, are spread evenly over [0, 1).
_GOLDEN = 0.6180339887498949

#: Most visits of one window in an epoch.
MAX_VISITS = 4

#: Value of ``PackageMix.declared``: accept whatever the windows and alleles of the package make possible.
POSSIBLE: Literal["possible"] = "possible"

#: Largest accepted difference between a served and a declared share, as a fraction.
MIX_TOLERANCE = 0.02


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of the tuples of an epoch, each group with a sum of 1."""

    #: Share by origin of the window: ``reference`` or a corpus source.
    windows: Mapping[str, float]
    #: Share by source of the edit.
    edits: Mapping[str, float]

    def farthest(self, other: Shares) -> float:
        """Return the largest absolute difference between two shares of the same name; an absent share is 0."""
        pairs = ((self.windows, other.windows), (self.edits, other.edits))
        return max((abs(a.get(name, 0.0) - b.get(name, 0.0)) for a, b in pairs for name in {*a, *b}), default=0.0)


@dataclass(frozen=True, slots=True)
class VisitFigures:
    """Visits of the training windows of one stratum."""

    windows: int
    #: ``visits``, ``unseen``, ``median``, ``high``: of epoch 0: visits, windows not visited, visits per window (median,
    #: 99th percentile).
    visits: int
    unseen: int
    median: float
    high: float
    #: Most visits that a window can have in one of the first eight epochs.
    most: int
    #: Visits in all of these epochs.
    later: int


#: Shares that the specification states: of windows (RFC-0006 §3.1; reference windows are eukaryotes') and of edits
#: (§3.3), of which :data:`EDIT_SHARES` are what eight slots can hold.
SPECIFICATION = Shares(
    SOURCE_MIX, MappingProxyType({"gnomad": 0.40, "synthetic_snv": 0.30, "synthetic_indel": 0.20, "clinvar": 0.10})
)


def as_specified(shares: Shares) -> Shares:
    """Return shares by the names of :data:`SPECIFICATION`: reference windows count as ``eukaryote_generator``."""
    windows = {_EUKARYOTES: 0.0, **shares.windows}
    windows[_EUKARYOTES] += windows.pop(REFERENCE_ORIGIN, 0.0)
    return replace(shares, windows=windows)


@dataclass(frozen=True, slots=True)
class PackageMix:
    """The mix that a package is made for.

    Raises
    ------
    ConfigurationError
        If a name is unknown, or the shares of a group do not add up to 1.
    """

    #: Shares that are wanted over an epoch.
    wanted: Shares = field(default_factory=lambda: Shares(window_shares(), dict(EDIT_SHARES)))
    #: Shares that are accepted instead, where windows and alleles cannot give the wanted ones. None: the wanted shares
    #: are expected. :data:`POSSIBLE`: those that the plan of an epoch gives.
    declared: Shares | Literal["possible"] | None = None
    #: Most visits of one window in an epoch.
    max_visits: int = MAX_VISITS
    #: Fewest review stars, 0 to 4, of a ClinVar allele of training.
    min_training_stars: int = 0

    def __post_init__(self) -> None:
        for windows, edits, shares in (("mix", "edits", self.wanted), ("mix_declared", "mix_declared", self.declared)):
            if isinstance(shares, Shares):
                _check(f"packages.{windows}", shares.windows, (REFERENCE_ORIGIN, *CorpusSource))
                _check(f"packages.{edits}", shares.edits, tuple(EDIT_SHARES))
        if self.max_visits < 1:
            raise ConfigurationError(
                "packages.max_visits", "out of range", expected="at least 1", got=f"{self.max_visits}"
            )


def window_shares(mix: Mapping[str, float] | None = None, reference_share: float | None = None) -> dict[str, float]:
    """Return the share of every origin of windows.

    Parameters
    ----------
    mix
        Share by corpus source and ``reference``; None: :data:`SOURCE_MIX`.
    reference_share
        Share of ``eukaryote_generator``'s tuples that reference windows take if ``mix`` does not name ``reference``;
        None: :data:`REFERENCE_SHARE`.

    Raises
    ------
    ConfigurationError
        If a name is unknown, the shares do not add up to 1, or both ``reference`` and ``reference_share`` are given.

    Examples
    --------
    >>> window_shares({"eukaryote_generator": 0.5, "prokaryote_evo2": 0.5}, 0.8)
    {'reference': 0.4, 'eukaryote_generator': 0.1, 'prokaryote_evo2': 0.5}
    """
    shares = dict(SOURCE_MIX if mix is None else mix)
    _check("packages.mix", shares, (REFERENCE_ORIGIN, *CorpusSource))
    if REFERENCE_ORIGIN in shares:
        if reference_share is not None:
            raise ConfigurationError(
                "packages.reference_share",
                "is given, but the mix names 'reference' itself",
                remedy="Leave one of the two out",
            )
        return {name: share for name, share in shares.items() if share}
    ours = REFERENCE_SHARE if reference_share is None else reference_share
    half = shares.pop(_EUKARYOTES, 0.0)
    divided = {REFERENCE_ORIGIN: half * ours, _EUKARYOTES: half - half * ours, **shares}
    return {name: round(share, 12) for name, share in divided.items() if share}


def present_shares(shares: Mapping[str, float], present: set[str]) -> dict[str, float]:
    """Return the shares of the origins that have windows, scaled to a sum of 1; empty if none has.

    Reference and ``eukaryote_generator`` windows take each other's share; other shares are divided in proportion.
    """
    given = dict(shares)
    for name, twin in ((REFERENCE_ORIGIN, _EUKARYOTES), (_EUKARYOTES, REFERENCE_ORIGIN)):
        if name not in present and twin in present and given.get(twin):
            given[twin] += given.pop(name, 0.0)
    kept = {name: share for name, share in given.items() if name in present and share > 0}
    total = sum(kept.values())
    return {name: share / total for name, share in kept.items()}


def epoch_visits(shares: Mapping[str, float], windows: Mapping[str, int]) -> int:
    """Return the visits of an epoch: those that visit each reference window once on average, else all windows.

    ``shares`` are those of :func:`present_shares`; ``windows`` are numbers by origin.
    """
    if REFERENCE_ORIGIN in shares:
        return max(1, round(windows[REFERENCE_ORIGIN] / shares[REFERENCE_ORIGIN]))
    return sum(windows[name] for name in shares)


def epoch_quotas(visits: Sequence[float], epochs: int) -> NDArray[np.int64]:
    """Return the visits of each stratum in the first epochs, from the mean ones: int64, shape (epochs, n_strata).

    The visits of an epoch are laid end to end and rounded at a common offset, which differs between epochs. The sum of
    the mean visits is an integer.
    """
    ends = np.concatenate(([0.0], np.cumsum(visits)))
    ends[-1] = round(ends[-1])
    quotas: NDArray[np.int64] = np.diff(np.floor(ends + np.arange(epochs)[:, None] * _GOLDEN % 1), axis=1)
    return quotas.astype(np.int64)


def figures_of_visits(visits: Mapping[str, float], windows: Mapping[str, int]) -> dict[str, VisitFigures]:
    """Return the visits of the windows of each stratum, from its mean visits per epoch and number of windows.

    A window is visited again only after all others of its stratum were, across epochs too; so it is visited at most
    once in each round of them that an epoch has a part in.
    """
    total = sum(visits.values())
    whole = {name: n * max(1, round(total)) / total for name, n in sorted(visits.items())}
    figures = {}
    for name, quotas in zip(whole, epoch_quotas([*whole.values()], EPOCHS).T.tolist(), strict=True):
        n, first, most = windows[name], 0, 0
        for quota in quotas:
            most = max(most, -(-(first + quota) // n) - first // n if quota else 0)
            first += quota
        every, more = divmod(quotas[0], n)
        # In epoch 0, which begins with a round, ``more`` windows are visited once more than the others.
        median = every + (0.0 if 2 * more < n else 0.5 if 2 * more == n else 1.0)
        figures[name] = VisitFigures(
            windows=n,
            visits=quotas[0],
            unseen=max(0, n - quotas[0]),
            median=median,
            high=float(every + (more >= n + -99 * (n - 1) // 100)),
            most=most,
            later=sum(quotas),
        )
    absent = {name: VisitFigures(n, 0, n, 0.0, 0.0, 0, 0) for name, n in windows.items() if name not in figures}
    return dict(sorted((figures | absent).items()))


def _check(where: str, shares: Mapping[str, float], names: tuple[str, ...]) -> None:
    unknown = sorted(set(shares) - set(names))
    if unknown:
        raise ConfigurationError(where, "unknown name", expected=f"one of {', '.join(names)}", got=repr(unknown[0]))
    total = sum(shares.values())
    if min(shares.values(), default=0) < 0 or abs(total - 1) > 1e-4:
        raise ConfigurationError(where, "shares do not add up", expected="a sum of 1", got=f"{total:g}")
