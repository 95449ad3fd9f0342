"""Peaks of a sample named by the bins of a panel, and flagged; no value here prints an allele."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Flag, auto

import numpy as np
import numpy.typing as npt

from genolewm_assets.forensic.abif import HidFile
from genolewm_assets.forensic.panels import Locus, Panel, is_amelogenin
from genolewm_assets.forensic.signal import Peaks, PullUpRules, find_peaks, find_pull_up, flatten
from genolewm_assets.forensic.sizing import Sizing

Floats = npt.NDArray[np.float64]
#: Name of an allele that lies in no bin.
OFF_LADDER = "OL"


class PeakFlag(Flag):
    """What is to be said of a peak; those of ``ARTEFACT`` make it no allele."""

    NONE = 0
    #: Lower than the analytical threshold.
    LOW = auto()
    #: No higher than stutter of its neighbours may be.
    STUTTER = auto()
    #: No higher than pull-up of another dye's peak may be.
    PULL_UP = auto()
    #: Lower than a share of the highest peak of the locus.
    MINOR = auto()
    #: Outside the fragments of the size standard that were found, so that its size is an estimate.
    UNSIZED = auto()
    #: In no bin.
    OFF_LADDER = auto()
    #: The detector was saturated at one of its scans, so that its height is too low and other dyes are disturbed.
    OFF_SCALE = auto()
    ARTEFACT = LOW | STUTTER | PULL_UP | MINOR | UNSIZED


@dataclass(frozen=True, slots=True, repr=False)
class CalledPeak:
    """One peak in the range of a locus."""

    locus: str
    #: Channel of the locus' dye.
    channel: int
    #: Name of the bin, or ``OFF_LADDER``.
    allele: str
    size_bp: float
    #: Distance of its size from the middle of the nearest bin.
    distance_bp: float
    height_rfu: float
    #: ``scan``, ``left``, ``right``: top (between scans), first and last scan.
    scan: float
    left: int
    right: int
    flags: PeakFlag

    def __repr__(self) -> str:
        return f"CalledPeak(locus={self.locus!r}, channel={self.channel}, flags={self.flags!r})"

    @property
    def is_allele(self) -> bool:
        """Whether no artefact explains the peak."""
        return not self.flags & PeakFlag.ARTEFACT


@dataclass(frozen=True, slots=True, repr=False)
class ProfileCalls:
    """The called profile of one run.

    Attributes
    ----------
    loci
        Names of the panel's loci, in its order.
    peaks
        Every peak in the range of a locus, artefacts too, by locus and size.
    """

    loci: tuple[str, ...]
    peaks: tuple[CalledPeak, ...]

    def __repr__(self) -> str:
        called = sum(peak.is_allele for peak in self.peaks)
        return f"ProfileCalls({len(self.loci)} loci, {len(self.peaks)} peaks, {called} called)"

    @property
    def genotype(self) -> dict[str, tuple[str, ...]]:
        """Alleles of each locus in order of their sizes, once each; an empty tuple where nothing is called."""
        alleles: dict[str, dict[str, None]] = {locus: {} for locus in self.loci}
        for peak in self.peaks:
            if peak.is_allele:
                alleles[peak.locus][peak.allele] = None
        return {locus: tuple(own) for locus, own in alleles.items()}


@dataclass(frozen=True, slots=True)
class CallingRules:
    """Thresholds of allele calls.

    Attributes
    ----------
    detection_rfu, analytical_rfu
        Lowest peak that is listed, and lowest peak that may be an allele.
    back_stutter, forward_stutter, double_stutter, half_stutter
        Largest height of a peak one repeat below, one above, two below and half a repeat beside another, relative to
        it. What several neighbours may make is added up. Amelogenin has no stutter.
    stutter_tolerance_bp
        Largest distance of such a peak from where it is expected.
    min_fraction
        Least height relative to the highest peak of the locus.
    pull_up
        When a peak counts as pull-up.
    """

    detection_rfu: float = 50.0
    analytical_rfu: float = 175.0
    back_stutter: float = 0.15
    forward_stutter: float = 0.08
    double_stutter: float = 0.03
    half_stutter: float = 0.06
    stutter_tolerance_bp: float = 0.6
    min_fraction: float = 0.05
    pull_up: PullUpRules = field(default_factory=PullUpRules)


def call_alleles(run: HidFile, sizing: Sizing, panel: Panel, *, rules: CallingRules | None = None) -> ProfileCalls:
    """Return the peaks of a sized run in the loci of a panel, with their alleles and flags.

    Parameters
    ----------
    panel
        The panel, moved by the ladder of the same run folder (:attr:`LadderFit.panel`).

    Raises
    ------
    PanelError
        If a locus has a channel that the run lacks.
    """
    rules = rules or CallingRules()
    peaks = {
        dye.channel: find_peaks(flatten(dye.raw, dye.analysed), min_height=rules.detection_rfu) for dye in run.dyes
    }
    pull_up = find_pull_up(peaks, run.off_scale, rules.pull_up)
    called: list[CalledPeak] = []
    for locus in panel.loci:
        own = peaks[run.dye(locus.channel, f"{run.where} locus {locus.name!r}").channel]
        sizes = sizing.size_at(own.scan)
        inside = (sizes >= locus.start_bp) & (sizes <= locus.end_bp)
        flagged = {
            PeakFlag.OFF_SCALE: own.touch(run.off_scale)[inside],
            PeakFlag.PULL_UP: pull_up[locus.channel][inside],
            PeakFlag.UNSIZED: ~sizing.covers(own.scan)[inside],
        }
        called += _call_locus(locus, own.take(inside), sizes[inside], flagged, rules)
    return ProfileCalls(tuple(locus.name for locus in panel.loci), tuple(called))


def _call_locus(
    locus: Locus, peaks: Peaks, sizes: Floats, flagged: dict[PeakFlag, npt.NDArray[np.bool_]], rules: CallingRules
) -> list[CalledPeak]:
    alleles, distances = _name(locus, sizes)
    stutter = _stutter_heights(locus, peaks.height, sizes, rules)
    called = []
    for i, allele in enumerate(alleles):
        height = float(peaks.height[i])
        facts = {
            PeakFlag.LOW: height < rules.analytical_rfu,
            PeakFlag.STUTTER: height <= stutter[i],
            PeakFlag.MINOR: height < rules.min_fraction * float(peaks.height.max()),
            PeakFlag.OFF_LADDER: allele == OFF_LADDER,
        } | {flag: bool(holds[i]) for flag, holds in flagged.items()}
        flags = PeakFlag.NONE
        for flag, holds in facts.items():
            flags |= flag if holds else PeakFlag.NONE
        place = float(peaks.scan[i]), int(peaks.left[i]), int(peaks.right[i])
        called.append(
            CalledPeak(locus.name, locus.channel, allele, float(sizes[i]), float(distances[i]), height, *place, flags)
        )
    return called


def _name(locus: Locus, sizes: Floats) -> tuple[list[str], Floats]:
    """Return the allele of each size and its distance from the middle of the nearest bin."""
    middles = np.array([each.size_bp for each in locus.bins])
    offsets = sizes[:, None] - middles[None, :]
    nearest = np.abs(offsets).argmin(axis=1)
    distances = offsets[np.arange(len(sizes)), nearest]
    bins = [locus.bins[row] for row in nearest]
    fits = [-each.left_bp <= distance <= each.right_bp for each, distance in zip(bins, distances, strict=True)]
    return [each.allele if fit else OFF_LADDER for each, fit in zip(bins, fits, strict=True)], distances


def _stutter_heights(locus: Locus, heights: Floats, sizes: Floats, rules: CallingRules) -> Floats:
    """Return how high stutter of its neighbours may make each peak: float64, shape (n_peaks,)."""
    highest = np.zeros(len(sizes))
    if is_amelogenin(locus.name):
        return highest
    for repeats, ratio in (
        (1.0, rules.back_stutter),
        (-1.0, rules.forward_stutter),
        (2.0, rules.double_stutter),
        (0.5, rules.half_stutter),
        (-0.5, rules.half_stutter),
    ):
        place = sizes + repeats * locus.repeat_bp
        first = np.searchsorted(sizes, place - rules.stutter_tolerance_bp)
        last = np.searchsorted(sizes, place + rules.stutter_tolerance_bp, side="right")
        for i, (start, end) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
            beside = float(heights[start:end].max(initial=0))
            highest[i] += ratio * beside if beside > heights[i] else 0
    return highest
