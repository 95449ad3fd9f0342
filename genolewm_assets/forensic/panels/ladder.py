"""The allelic ladder of a run: its peaks assigned to the kit's ladder alleles, and the panel moved along.

A kit's sizes may be off by nearly a repeat, but the shift changes little from one allele to the next. So the alleles of
one dye are assigned together, in the order of their sizes: an assignment that is wrong by a repeat has to jump.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from genolewm_assets.errors import PanelError
from genolewm_assets.forensic.abif import HidFile
from genolewm_assets.forensic.panels.panel import Locus, Panel
from genolewm_assets.forensic.signal import Peaks, find_peaks, flatten
from genolewm_assets.forensic.sizing import Sizing

Floats = npt.NDArray[np.float64]
#: Cost of an allele without peak; of a high peak without allele; of a change of height by a factor of e; of a shift of
#: one base pair.
_SKIP, _UNUSED, _STEP, _PRIOR = 40.0, 8.0, 3.0, 0.05
#: A change of shift that costs 1, in base pairs: at the same size, for each base pair between the alleles, and from
#: one locus to the next, because a file may count the sizes of each locus on its own.
_JUMP_BP, _DRIFT, _JUMP_OF_LOCUS_BP = 0.4, 0.02, 1.2
#: A peak is high if it has this share of the ladder's typical height.
_HIGH = 0.4
_MAX_GAP, _NEVER = 4, 1e18


@dataclass(frozen=True, slots=True)
class LadderRules:
    """What counts as a peak of the ladder."""

    #: Lowest peak.
    min_height_rfu: float = 100.0
    #: Least height relative to the median of as many of the dye's highest peaks as the ladder has alleles. Stutter is
    #: lower, and stands where a missing allele would.
    min_fraction: float = 0.2
    #: Largest distance between the size of an allele in the panel and in the run.
    max_shift_bp: float = 9.0


@dataclass(frozen=True, slots=True, eq=False)
class LadderFit:
    """The ladder of a run.

    Attributes
    ----------
    panel
        The kit's panel with every bin and range moved by the shift of the ladder alleles round it.
    sizes_bp
        Measured size of each ladder allele that was found, by locus and allele.
    missing
        Ladder alleles that were not found, by locus; loci whose alleles were all found are left out.
    max_shift_bp
        Largest shift of an allele.
    """

    panel: Panel
    sizes_bp: dict[str, dict[str, float]] = field(repr=False)
    missing: dict[str, tuple[str, ...]] = field(repr=False)
    max_shift_bp: float

    @property
    def is_complete(self) -> bool:
        """Whether every ladder allele of the kit was found."""
        return not self.missing


def fit_ladder(run: HidFile, sizing: Sizing, panel: Panel, *, rules: LadderRules | None = None) -> LadderFit:
    """Assign the peaks of a sized ladder run to the ladder alleles of a kit's panel, and move the panel.

    Raises
    ------
    PanelError
        If a locus has a channel that the run lacks, or fewer than half of its ladder alleles are found.
    """
    rules = rules or LadderRules()
    sizes: dict[str, dict[str, float]] = {}
    for channel in sorted({locus.channel for locus in panel.loci}):
        loci = [locus for locus in panel.loci if locus.channel == channel]
        dye = run.dye(channel, f"{run.where} locus {loci[0].name!r}")
        peaks = find_peaks(flatten(dye.raw, dye.analysed), min_height=rules.min_height_rfu)
        peaks = peaks.take(sizing.covers(peaks.scan))
        sizes |= _assign(loci, peaks, sizing.size_at(peaks.scan), rules)
    missing: dict[str, tuple[str, ...]] = {}
    shifts = []
    for locus in panel.loci:
        if absent := tuple(each.allele for each in locus.ladder if each.allele not in sizes[locus.name]):
            missing[locus.name] = absent
        if 2 * len(sizes[locus.name]) < len(locus.ladder):
            raise PanelError(
                f"{run.where} locus {locus.name!r}",
                "most of its ladder alleles are not found",
                expected=str(len(locus.ladder)),
                got=str(len(sizes[locus.name])),
                remedy="Check that the run is the ladder of the panel's kit",
            )
        found = ((each, sizes[locus.name].get(each.allele)) for each in locus.ladder)
        shifts += [abs(size - each.size_bp) for each, size in found if size is not None]
    moved = tuple(_move(locus, sizes[locus.name]) for locus in panel.loci)
    return LadderFit(replace(panel, loci=moved), sizes, missing, max(shifts))


def _assign(loci: list[Locus], peaks: Peaks, sizes: Floats, rules: LadderRules) -> dict[str, dict[str, float]]:
    """Return the measured sizes of the ladder alleles of one dye, by locus and allele."""
    alleles = sorted((each.size_bp, locus.name, each.allele) for locus in loci for each in locus.ladder)
    found: dict[str, dict[str, float]] = {locus.name: {} for locus in loci}
    expected = np.array([size for size, _, _ in alleles])
    near = (sizes >= expected[0] - rules.max_shift_bp) & (sizes <= expected[-1] + rules.max_shift_bp)
    typical = float(np.median(np.sort(peaks.height[near])[-len(expected) :])) if near.any() else np.inf
    high = np.flatnonzero(peaks.height >= rules.min_fraction * typical)
    relative = peaks.height[high] / typical
    rows = _chain(expected, [locus for _, locus, _ in alleles], sizes[high], relative, rules.max_shift_bp)
    for (_, locus, allele), row in zip(alleles, rows, strict=True):
        if row >= 0:
            found[locus][allele] = float(sizes[high[row]])
    return found


def _chain(expected: Floats, loci: list[str], sizes: Floats, heights: Floats, reach: float) -> list[int]:
    """Return for each expected size the row of its peak, or -1, so that all together cost least."""
    rows = [np.flatnonzero(np.abs(sizes - size) <= reach) for size in expected]
    is_high = heights >= _HIGH
    highs, logs = np.cumsum(is_high), np.log(heights)
    costs: list[Floats] = []
    came: list[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]] = []
    for i, own in enumerate(rows):
        shift = sizes[own] - expected[i]
        cost = i * _SKIP + _PRIOR * shift**2
        from_step, from_row = np.zeros(len(own), np.intp), np.full(len(own), -1)
        for step in range(1, min(i, _MAX_GAP) + 1):
            j = i - step
            if not len(rows[j]) or not len(own):
                continue
            jump = shift[None, :] - (sizes[rows[j]] - expected[j])[:, None]
            scale = _JUMP_BP + _DRIFT * (expected[i] - expected[j]) + _JUMP_OF_LOCUS_BP * (loci[i] != loci[j])
            change = logs[own][None, :] - logs[rows[j]][:, None]
            unused = np.maximum((highs - is_high)[own][None, :] - highs[rows[j]][:, None], 0)
            total = costs[j][:, None] + (jump / scale) ** 2 + _STEP * change**2 + _UNUSED * unused
            total += (step - 1) * _SKIP
            total[rows[j][:, None] >= own[None, :]] = _NEVER
            best = total.argmin(axis=0)
            lower = total[best, np.arange(len(own))]
            better = lower < cost
            cost = np.where(better, lower, cost)
            from_step, from_row = np.where(better, step, from_step), np.where(better, best, from_row)
        costs.append(cost)
        came.append((from_step, from_row))
    return _trace_back(rows, costs, came)


def _trace_back(
    rows: list[npt.NDArray[np.intp]], costs: list[Floats], came: list[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]
) -> list[int]:
    n = len(rows)
    ends = [(float(cost.min()) + (n - 1 - i) * _SKIP, i) for i, cost in enumerate(costs) if len(cost)]
    chosen = [-1] * n
    if not ends:
        return chosen
    _, i = min(ends)
    own = int(costs[i].argmin())
    while own >= 0:
        chosen[i] = int(rows[i][own])
        step, own = int(came[i][0][own]), int(came[i][1][own])
        i -= step
    return chosen


def _move(locus: Locus, sizes: dict[str, float]) -> Locus:
    """Return a locus moved by the shifts of its ladder alleles, interpolated between them."""
    anchors = [(each.size_bp, sizes[each.allele] - each.size_bp) for each in locus.ladder if each.allele in sizes]
    places, shifts = map(np.array, zip(*anchors, strict=True))

    def moved(size: float) -> float:
        return size + float(np.interp(size, places, shifts))

    bins = tuple(replace(each, size_bp=moved(each.size_bp)) for each in locus.bins)
    return replace(locus, start_bp=moved(locus.start_bp), end_bp=moved(locus.end_bp), bins=bins)
