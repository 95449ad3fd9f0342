"""Order of the windows of an epoch, and fixed cycles of edit sources. Not here: the mix of a package (``packages``)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.edits import EDIT_SOURCE_CODES, EditSource, seed_words
from genolewm_assets.errors import ConfigurationError
from genolewm_assets.packages import EpochPlan, SlotPlan, epoch_quotas
from genolewm_assets.training.sampler import find_visits

Rows = NDArray[np.int64]

#: Windows whose numbers are compared at once.
_AT_ONCE = 1 << 20


@dataclass(frozen=True, slots=True)
class FileOrder:
    """Schedule that visits every window once in file order, in every epoch."""

    n_windows: int
    slots: SlotPlan | EditCycle

    def __len__(self) -> int:
        return self.n_windows

    def visits(self, epoch: int, ordinals: Rows) -> tuple[Rows, Rows]:  # noqa: ARG002 - all epochs are equal
        """Return the numbers of the visits, which are their rows, and zeros: int64, shape (n_visits,) each."""
        return ordinals, np.zeros_like(ordinals)


@dataclass(frozen=True, slots=True, eq=False)
class WindowSchedule:
    """Schedule that visits the windows of each stratum in given numbers, in random order.

    A visit's window is computed from its number. Within a stratum, a window is visited again only after all others
    were, across epochs too.
    """

    #: Rows of the split, stratum after stratum: int32, shape (n_windows,).
    rows_by_stratum: NDArray[np.int32]
    #: Where each stratum begins in them, and the end: int64, shape (n_strata + 1,).
    starts: Rows
    #: Mean visits per epoch of each stratum, with an integer sum. An epoch has at most one visit of a stratum more or
    #: less, so that small strata are visited in some epochs.
    mean_visits: tuple[float, ...]
    slots: SlotPlan | EditCycle
    seed: int

    @classmethod
    def of(cls, plan: EpochPlan, slots: SlotPlan | EditCycle, *, seed: int) -> WindowSchedule:
        """Return the schedule of a planned epoch; ``slots`` may be another plan of slots than its own."""
        names, code = plan.slots.alleles.strata()
        rows = [np.flatnonzero(code == names.index(name)).astype(np.int32) for name in sorted(plan.visits)]
        total = sum(plan.visits.values())
        visits = tuple(plan.visits[name] * max(1, round(total)) / total for name in sorted(plan.visits))
        return cls(np.concatenate(rows), np.cumsum([0, *map(len, rows)]), visits, slots, seed)

    def __len__(self) -> int:
        return round(sum(self.mean_visits))

    def visits(self, epoch: int, ordinals: Rows) -> tuple[Rows, Rows]:
        """Return the rows of visits, and how often each was visited before in the epoch: int64, (n_visits,) each."""
        firsts, ends = _spans(self.mean_visits, epoch)
        strata = ends, firsts, self.starts, self.rows_by_stratum
        return find_visits(seed_words(self.seed), epoch, strata, ordinals)

    def rows(self, epoch: int) -> Rows:
        """Return the rows of all visits of an epoch: int64, shape (n_visits,)."""
        return self.visits(epoch, np.arange(len(self)))[0]


#: Order of the windows of an epoch, and the sources of their edits.
Schedule: TypeAlias = FileOrder | WindowSchedule


@lru_cache(maxsize=8)
def _spans(visits: tuple[float, ...], epoch: int) -> tuple[Rows, Rows]:
    """Return the visits of each stratum in earlier epochs, and where its visits end in this one: int64, (n_strata,)."""
    quotas = epoch_quotas(visits, epoch + 1)
    return quotas[:-1].sum(axis=0), np.cumsum(quotas[-1])


def find_repeated(first_rows: Rows) -> tuple[Rows, Rows]:
    """Return the rows whose number an earlier row has, and how many earlier ones have it: int64, shape (n,) each."""
    parts = [slice(at, at + _AT_ONCE) for at in range(0, len(first_rows), _AT_ONCE)]
    # A number above all before it is new; most are.
    highest, others = -1, [np.zeros(0, np.int64)]
    for part in parts:
        reached = np.maximum.accumulate(np.append(highest, first_rows[part]))
        others.append(first_rows[part][first_rows[part] <= reached[:-1]])
        highest = reached[-1]
    shared = np.unique(np.concatenate(others))
    rows = [part.start + np.flatnonzero(np.isin(first_rows[part], shared)) for part in parts]
    row = np.concatenate([np.zeros(0, np.int64), *rows])
    order = np.argsort(first_rows[row], kind="stable")
    ordered, earlier = first_rows[row][order], np.empty_like(row)
    earlier[order] = np.arange(len(row)) - np.searchsorted(ordered, ordered)
    return row[earlier > 0], earlier[earlier > 0]


@dataclass(frozen=True, slots=True)
class EditCycle:
    """The same cycle of sources for all windows, whatever alleles they have; ``n_edits`` slots per visit."""

    cycle: tuple[EditSource, ...]
    n_edits: int

    @classmethod
    def named(cls, mix: str, n_edits: int) -> EditCycle:
        """Return the cycle of a built-in mix."""
        if mix not in EDIT_MIXES:
            raise ConfigurationError("mix", "unknown edit mix", expected=f"one of {sorted(EDIT_MIXES)}", got=repr(mix))
        return cls(EDIT_MIXES[mix], n_edits)

    def plans(self, ordinals: Rows, rows: Rows) -> NDArray[np.int8]:  # noqa: ARG002 - all windows are equal
        """Return the source codes: int8, shape (n_visits, n_edits); the cycle continues from window to window."""
        cycle = np.array([EDIT_SOURCE_CODES[source] for source in self.cycle], dtype=np.int8)
        codes: NDArray[np.int8] = cycle[(ordinals[:, None] * self.n_edits + np.arange(self.n_edits)) % len(cycle)]
        return codes


_G, _S, _I, _C = EditSource.GNOMAD, EditSource.SYNTHETIC_SNV, EditSource.SYNTHETIC_INDEL, EditSource.CLINVAR

#: Built-in mixes. ``exact``: with 8 edits per window, every window has 3 gnomAD alleles, 3 synthetic SNVs, 1 synthetic
#: indel and 1 ClinVar allele (RFC-0006 §3.3). ``rotating``: 40 %, 30 %, 20 % and 10 %, which 8 slots cannot represent;
#: any five successive windows of 8 edits have 16, 12, 8 and 4.
EDIT_MIXES: dict[str, tuple[EditSource, ...]] = {
    "exact": (_G, _S, _G, _I, _S, _G, _S, _C),
    "rotating": (_G, _S, _G, _I, _S, _G, _C, _S, _G, _I),
}
