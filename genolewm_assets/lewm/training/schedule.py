"""Order of the windows of an epoch, and source of each edit slot, so that tuples have the configured mixes.

Not here: sampling of edits (``sampling``), tuples made from a window (``stream``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.lewm.packages import REFERENCE_ORIGIN
from genolewm_assets.lewm.training.draws import DrawKey

#: Source of the mix whose share an origin counts towards, if not its own: reference windows use the eukaryotes' share
#: (RFC-0006 §3.1).
_SHARE_OF = {REFERENCE_ORIGIN: "eukaryote_generator"}

Rows = NDArray[np.int64]


class Schedule(Protocol):
    """Order of the windows of an epoch."""

    def __len__(self) -> int:
        """Return the number of window visits of an epoch."""
        ...

    def rows(self, epoch: int) -> Rows:
        """Return the rows of the windows of an epoch in visiting order: int64, shape (n_visits,)."""
        ...


@dataclass(frozen=True, slots=True)
class FileOrder:
    """Schedule that visits every window once in file order, in every epoch.

    Attributes
    ----------
    n_windows
        Number of windows of the split.
    """

    n_windows: int

    def __len__(self) -> int:
        return self.n_windows

    def rows(self, epoch: int) -> Rows:  # noqa: ARG002 - all epochs are equal
        """Return all rows: int64, shape (n_windows,)."""
        return np.arange(self.n_windows, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class WindowSchedule:
    """Schedule that visits windows of each source in the shares of a mix, in random order.

    Attributes
    ----------
    rows_by_source
        Rows of the split by source of the mix: int64, shape (n_windows_of_source,).
    quota
        Visits per epoch by source. If a source has fewer windows than its quota, an epoch visits some of them again.
    seed
        Seed of the run.
    """

    rows_by_source: Mapping[str, Rows]
    quota: Mapping[str, int]
    seed: int

    @classmethod
    def plan(
        cls, origins: NDArray[np.str_], mix: Mapping[str, float], n_windows: int | None, *, seed: int
    ) -> WindowSchedule:
        """Compute the visits per epoch of every source.

        Parameters
        ----------
        origins
            Origin of every window of the split: str, shape (n_rows,).
        mix
            Wanted share of each source. Shares of sources without a window are divided among the others.
        n_windows
            Window visits per epoch; None: the number of windows of the split.
        seed
            Seed of the run.

        Raises
        ------
        ConfigurationError
            If no source of the mix has a window, or ``n_windows`` is less than 1.
        """
        sources = np.array([_SHARE_OF.get(str(origin), str(origin)) for origin in np.unique(origins)], dtype=np.str_)
        source = sources[np.unique(origins, return_inverse=True)[1]] if len(origins) else origins
        rows = {name: np.flatnonzero(source == name).astype(np.int64) for name in sorted(mix) if mix[name] > 0}
        rows = {name: found for name, found in rows.items() if len(found)}
        size = len(origins) if n_windows is None else n_windows
        if not rows or size < 1:
            raise ConfigurationError(
                "training windows",
                "none to visit",
                expected=f"windows of at least one of {sorted(mix)}, and at least one per epoch",
                got=f"{len(origins)} windows of {sorted(set(sources.tolist()))}, {size} per epoch",
            )
        return cls(rows, apportion({name: mix[name] for name in rows}, size), seed)

    def __len__(self) -> int:
        return sum(self.quota.values())

    def rows(self, epoch: int) -> Rows:
        """Return the rows of the windows of an epoch in visiting order: int64, shape (n_visits,).

        Within a source, a window is visited again only after all others were visited; this holds across epochs too.
        """
        drawn = [self._next(name, epoch) for name in self.quota]
        rows = np.concatenate(drawn)
        return rows[DrawKey.of("order", self.seed, epoch).permutation(len(rows))]

    def _next(self, source: str, epoch: int) -> Rows:
        """Return the rows of one source for an epoch.

        They are the entries ``[epoch * quota, (epoch + 1) * quota)`` of an infinite sequence of permutations.
        """
        rows, quota = self.rows_by_source[source], self.quota[source]
        first, last = epoch * quota, (epoch + 1) * quota
        parts = [np.zeros(0, np.int64)]
        for round_ in range(first // len(rows), -(-last // len(rows))):
            start = round_ * len(rows)
            order = DrawKey.of("round", self.seed, source, round_).permutation(len(rows))
            parts.append(rows[order[max(0, first - start) : last - start]])
        return np.concatenate(parts)


def apportion(shares: Mapping[str, float], total: int) -> dict[str, int]:
    """Divide an integer in proportion to shares by the largest-remainder method; ties are resolved by name.

    Examples
    --------
    >>> apportion({"a": 0.5, "b": 0.25, "c": 0.25}, 10)
    {'a': 5, 'b': 3, 'c': 2}
    """
    scale = total / sum(shares.values())
    counts = {name: int(share * scale) for name, share in shares.items()}
    by_remainder = sorted(shares, key=lambda name: (counts[name] - shares[name] * scale, name))
    for name in by_remainder[: total - sum(counts.values())]:
        counts[name] += 1
    return counts


def count_visits(window_ids: NDArray[np.bytes_]) -> Rows:
    """Return the number of earlier visits of the same window for every visit: int64, shape (n_visits,)."""
    order = np.argsort(window_ids, kind="stable")
    ordered = window_ids[order]
    is_first = np.concatenate(([True], ordered[1:] != ordered[:-1])) if len(ordered) else np.zeros(0, bool)
    starts = np.maximum.accumulate(np.where(is_first, np.arange(len(ordered)), 0))
    visits = np.empty(len(ordered), dtype=np.int64)
    visits[order] = np.arange(len(ordered)) - starts
    return visits


class EditSource(StrEnum):
    """Source of an edit (RFC-0006 §3.3)."""

    GNOMAD = "gnomad"
    SYNTHETIC_SNV = "synthetic_snv"
    SYNTHETIC_INDEL = "synthetic_indel"
    CLINVAR = "clinvar"


@dataclass(frozen=True, slots=True)
class EditMix:
    """A cycle of edit sources, assigned in turn to the slots of successive windows.

    Parameters
    ----------
    name
        Name of the mix in configurations.
    cycle
        Source of each slot of one cycle.
    """

    name: str
    cycle: tuple[EditSource, ...]

    @classmethod
    def named(cls, name: str) -> EditMix:
        """Return a built-in mix.

        Raises
        ------
        ConfigurationError
            If no mix has that name.
        """
        if name not in EDIT_MIXES:
            raise ConfigurationError("mix", "unknown edit mix", expected=f"one of {sorted(EDIT_MIXES)}", got=repr(name))
        return EDIT_MIXES[name]

    def plan(self, ordinal: int, n_edits: int) -> tuple[EditSource, ...]:
        """Return the source of every slot of the window visited at ``ordinal`` (from 0) of the epoch.

        The cycle continues from one window to the next, so that shares are exact over every whole number of cycles.
        """
        first = ordinal * n_edits
        return tuple(self.cycle[slot % len(self.cycle)] for slot in range(first, first + n_edits))


_G, _S, _I, _C = EditSource.GNOMAD, EditSource.SYNTHETIC_SNV, EditSource.SYNTHETIC_INDEL, EditSource.CLINVAR

#: Built-in mixes. ``exact``: with 8 edits per window, every window has 3 gnomAD alleles, 3 synthetic SNVs, 1 synthetic
#: indel and 1 ClinVar allele (RFC-0006 §3.3). ``rotating``: 40 %, 30 %, 20 % and 10 %, which 8 slots cannot represent;
#: any five successive windows of 8 edits have 16, 12, 8 and 4.
EDIT_MIXES: dict[str, EditMix] = {
    "exact": EditMix("exact", (_G, _S, _G, _I, _S, _G, _S, _C)),
    "rotating": EditMix("rotating", (_G, _S, _G, _I, _S, _G, _C, _S, _G, _I)),
}
