"""Simulate one epoch of training on a written package, and count what it serves.

The windows, the plan and the tuples are those that a trainer gets with default options; states are not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.errors import GenoLeWMError
from genolewm_assets.genome import Split
from genolewm_assets.lewm.edits import EditSource, SamplingRules
from genolewm_assets.lewm.packages import EpochFigures, Package, PackageInfo, Shares, VisitFigures
from genolewm_assets.lewm.training import (
    EditMix,
    StreamSettings,
    Visits,
    WindowAlleles,
    WindowSchedule,
    open_stream,
    plan_epoch,
    read_split,
)
from genolewm_assets.progress import NO_PROGRESS, Progress

#: Most visits of which the tuples are made: as many of each stratum as its share, so that a share of edits varies with
#: the windows of a stratum only.
MADE_VISITS = 1_024

#: Epochs of which the visits are counted.
_EPOCHS = 8

_STEP = 16


def simulate_epoch(directory: Path, info: PackageInfo, *, progress: Progress = NO_PROGRESS) -> EpochFigures:
    """Simulate epoch 0 of a package with default options.

    Parameters
    ----------
    directory
        Folder of the package; its tables are complete.
    info
        Description of the package; ``mix`` is the mix of the epoch.
    progress
        Receives the number of visits made.

    Returns
    -------
    EpochFigures
        If no epoch can be simulated, such as without a training window that the mix asks for, ``error`` says why.
    """
    try:
        return _simulate(directory, info, progress)
    except GenoLeWMError as err:
        return EpochFigures(0, 0, Shares({}, {}), Shares({}, {}), {}, error=str(err))


def foretell_visits(visits: Mapping[str, float], windows: Mapping[str, int]) -> dict[str, int]:
    """Return the most visits of a window of each origin in one of the epochs that :func:`simulate_epoch` counts.

    For corpus sources they are the same: their order depends on the numbers of windows only, and the strata of the
    reference come last. Reference windows are taken as visited evenly.

    Parameters
    ----------
    visits, windows
        Mean visits per epoch, of which the sum is an integer, and number of windows, by origin.
    """
    names = sorted(visits)
    ends = np.cumsum([windows[name] for name in names]).tolist()
    slots, starts, rows = EditMix.named("exact").slots(1), np.array([0, *ends]), np.arange(ends[-1], dtype=np.int32)
    schedule = WindowSchedule(rows, starts, tuple(visits[name] for name in names), slots, StreamSettings().seed)
    epochs = [np.bincount(schedule.rows(epoch), minlength=ends[-1]) for epoch in range(_EPOCHS)]
    most = np.maximum.reduceat(np.max(epochs, axis=0), starts[:-1])
    return dict(zip(names, most.tolist(), strict=True))


def _simulate(directory: Path, info: PackageInfo, progress: Progress) -> EpochFigures:
    settings, rules = StreamSettings(), SamplingRules()
    sources = read_split(Package(directory, info, {}), Split.TRAIN, None)
    alleles = WindowAlleles.count(sources.windows, sources.real, rules.first_bp, rules.inset_bp)
    plan = plan_epoch(alleles, info.mix, n_edits=settings.n_edits)
    schedule = WindowSchedule.of(plan, plan.slots, seed=settings.seed)
    (rows, again), (names, strata) = schedule.visits(0, np.arange(len(schedule))), alleles.strata()
    stream = open_stream(sources, rules, settings)
    by_stratum = np.argsort(strata[rows], kind="stable")
    even = np.linspace(0, len(rows) - 1, min(len(rows), MADE_VISITS)).astype(np.int64)
    chosen = np.sort(by_stratum[np.unique(even)])
    made = np.zeros(len(EditSource), dtype=np.int64)
    for first in range(0, len(chosen), _STEP):
        at = chosen[first : first + _STEP]
        batch = stream.batch(Visits(rows[at], plan.slots.plans(at, rows[at]), again[at]), epoch=0, position=0)
        made += np.bincount(batch.edits.edit_source, minlength=len(EditSource))
        progress.advance(first + len(at), len(chosen), "visits of a simulated epoch")
    return EpochFigures(
        tuples=len(rows) * settings.n_edits,
        made=int(made.sum()),
        planned=Shares(_rounded(plan.shares.windows), _rounded(plan.shares.edits)),
        served=_count_shares(np.array(alleles.origin_names)[alleles.origin[rows]], made),
        visits=_count_visits(names, strata, [rows, *map(schedule.rows, range(1, _EPOCHS))]),
    )


def _count_shares(origins: NDArray[np.str_], made: NDArray[np.int64]) -> Shares:
    """Count the origins of all visits; ``made`` is the number of tuples made of each source."""
    names, visits = np.unique(origins, return_counts=True)
    return Shares(
        _rounded(dict(zip(names.tolist(), visits / visits.sum(), strict=True))),
        _rounded({str(source): n / made.sum() for source, n in zip(EditSource, made, strict=True)}),
    )


def _count_visits(
    names: Sequence[str], strata: NDArray[np.int16], epochs: Sequence[NDArray[np.int64]]
) -> dict[str, VisitFigures]:
    counts = [np.bincount(rows, minlength=len(strata)) for rows in epochs]
    figures = {}
    for code, name in enumerate(names):
        ours = [visits[strata == code] for visits in counts]
        figures[name] = VisitFigures(
            windows=len(ours[0]),
            visits=int(ours[0].sum()),
            unseen=int(np.count_nonzero(ours[0] == 0)),
            median=float(np.median(ours[0])),
            high=float(np.quantile(ours[0], 0.99, method="higher")),
            most=int(max(visits.max() for visits in ours)),
            later=int(sum(visits.sum() for visits in ours)),
        )
    return figures


def _rounded(shares: Mapping[str, float]) -> dict[str, float]:
    return {name: round(float(share), 6) for name, share in shares.items()}
