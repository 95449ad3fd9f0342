"""The order in which an epoch visits windows, and the source of each edit slot: tuples in the wanted mixes.

Not here: drawing the edits (``edit_sampling``), what is made of a window (``tuple_stream``).
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

#: Reference windows serve the share of the eukaryotes (RFC-0006 §3.1).
_SHARE_OF = {REFERENCE_ORIGIN: "eukaryote_generator"}

Rows = NDArray[np.int64]


class Schedule(Protocol):
    """Order of the windows of an epoch."""

    def __len__(self) -> int:
        """Return the number of visits of an epoch."""
        ...

    def rows(self, epoch: int) -> Rows:
        """Return the windows of an epoch in the order of their visits: int64, shape (n_visits,)."""
        ...


@dataclass(frozen=True, slots=True)
class FileOrder:
    """Every window once, in the order of the files: the same in every epoch.

    Attributes
    ----------
    n_windows
        Windows of the split.
    """

    n_windows: int

    def __len__(self) -> int:
        return self.n_windows

    def rows(self, epoch: int) -> Rows:  # noqa: ARG002 - no epoch differs
        """Return all rows: int64, shape (n_windows,)."""
        return np.arange(self.n_windows, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class WindowSchedule:
    """Rows of a split by source, and how many of each an epoch visits.

    Attributes
    ----------
    rows_by_source
        int64 rows by source of the mix.
    quota
        Windows per epoch by source; more than there are means that an epoch visits some again.
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
        """Divide an epoch among the sources.

        Parameters
        ----------
        origins
            Origin of every window of the split: str, shape (n_rows,).
        mix
            Wanted share of each source; those of sources without a window are divided among the others.
        n_windows
            Windows per epoch; None: as many as the split has.

        Raises
        ------
        ConfigurationError
            If no source of the mix has a window, or the epoch has none.
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
        """Return the windows of an epoch in the order of their visits: int64, shape (n_visits,).

        Every source goes through all of its windows before it shows one again, also from one epoch to the next.
        """
        drawn = [self._next(name, epoch) for name in self.quota]
        rows = np.concatenate(drawn)
        return rows[DrawKey.of("order", self.seed, epoch).permutation(len(rows))]

    def _next(self, source: str, epoch: int) -> Rows:
        """Return the windows ``[epoch * quota, (epoch + 1) * quota)`` of an endless row of permutations."""
        rows, quota = self.rows_by_source[source], self.quota[source]
        first, last = epoch * quota, (epoch + 1) * quota
        parts = [np.zeros(0, np.int64)]
        for round_ in range(first // len(rows), -(-last // len(rows))):
            start = round_ * len(rows)
            order = DrawKey.of("round", self.seed, source, round_).permutation(len(rows))
            parts.append(rows[order[max(0, first - start) : last - start]])
        return np.concatenate(parts)


def apportion(shares: Mapping[str, float], total: int) -> dict[str, int]:
    """Divide a whole number by shares: largest remainders, ties by name.

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
    """Return, for every visit, how many earlier ones of the sequence saw the same window: int64, shape (n_visits,)."""
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
    """A cycle of sources that the slots of successive windows run through.

    Parameters
    ----------
    name
        What configurations call it.
    cycle
        One source per slot.
    """

    name: str
    cycle: tuple[EditSource, ...]

    @classmethod
    def named(cls, name: str) -> EditMix:
        """Return a built-in mix.

        Raises
        ------
        ConfigurationError
            If there is none of that name.
        """
        if name not in EDIT_MIXES:
            raise ConfigurationError("mix", "no such edit mix", expected=f"one of {sorted(EDIT_MIXES)}", got=repr(name))
        return EDIT_MIXES[name]

    def plan(self, ordinal: int, n_edits: int) -> tuple[EditSource, ...]:
        """Return the source of every slot of the window at an ordinal of the epoch.

        Slots run on through the cycle, so that the shares are exact over every whole number of cycles.
        """
        first = ordinal * n_edits
        return tuple(self.cycle[slot % len(self.cycle)] for slot in range(first, first + n_edits))


_G, _S, _I, _C = EditSource.GNOMAD, EditSource.SYNTHETIC_SNV, EditSource.SYNTHETIC_INDEL, EditSource.CLINVAR

#: ``exact``: 3 gnomad, 3 SNV, 1 indel, 1 clinvar of the 8 edits of every window (RFC-0006 §3.3). ``rotating``: 40, 30,
#: 20 and 10 %, which 8 slots cannot hold: 16, 12, 8 and 4 over any five windows in a row.
EDIT_MIXES: dict[str, EditMix] = {
    "exact": EditMix("exact", (_G, _S, _G, _I, _S, _G, _S, _C)),
    "rotating": EditMix("rotating", (_G, _S, _G, _I, _S, _G, _C, _S, _G, _I)),
}
