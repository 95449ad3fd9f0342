"""Baseline and peaks of a trace, and peaks that another dye's peak makes because the dyes' spectra overlap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

#: Most peaks of one trace; a ladder has 200.
_MAX_PEAKS = 20_000
_Floats = npt.NDArray[np.float64]
_Scans = npt.NDArray[np.int64]
_Flags = npt.NDArray[np.bool_]


def subtract_baseline(trace: npt.ArrayLike, *, window: int = 201) -> _Floats:
    """Return a trace without its baseline, the morphological opening of the trace, smoothed: float64, at least 0.

    ``window`` is in scans, several times as wide as a peak; an even number counts as the next odd one.
    """
    values = np.asarray(trace, np.float64)
    half = min(window // 2, max(len(values) - 1, 0) // 2)
    if half < 1:
        return values - values.min() if len(values) else values
    opened = -_lowest(-_lowest(values, half), half)
    sums = np.cumsum(np.pad(opened, (half + 1, half), mode="edge"))
    smooth = (sums[2 * half + 1 :] - sums[: -2 * half - 1]) / (2 * half + 1)
    flat: _Floats = np.maximum(values - smooth, 0)
    return flat


def _lowest(values: _Floats, half: int) -> _Floats:
    """Return the lowest of ``2 * half + 1`` values round each, by doubling the width of the minimum."""
    width, reach = 2 * half + 1, 1
    lowest = np.pad(values, half, mode="edge")
    while 2 * reach <= width:
        lowest = np.minimum(lowest[:-reach], lowest[reach:])
        reach *= 2
    rest = width - reach
    return np.minimum(lowest[: len(lowest) - rest], lowest[rest:]) if rest else lowest


def flatten(raw: npt.NDArray[np.int16], analysed: npt.NDArray[np.int16] | None) -> npt.NDArray[np.generic]:
    """Return a dye's trace without baseline: as the instrument analysed it, else the raw one less its baseline."""
    return subtract_baseline(raw) if analysed is None else analysed


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Peaks:
    """Peaks of one trace, in order of their scans; every array has the shape (n_peaks,)."""

    #: Scan of the top, between scans by a parabola through the top and its neighbours: float64.
    scan: _Floats
    #: Height of the top in relative fluorescence units: float64.
    height: _Floats
    #: ``left``, ``right``: first and last scan of the peak, where the trace stops falling: int64.
    left: _Scans
    right: _Scans

    def __len__(self) -> int:
        return len(self.scan)

    def __repr__(self) -> str:
        return f"Peaks({len(self)} peaks)"

    def take(self, rows: _Flags | npt.NDArray[np.intp]) -> Peaks:
        """Return some of the peaks, by row or by mask."""
        return Peaks(self.scan[rows], self.height[rows], self.left[rows], self.right[rows])

    def touch(self, scans: _Scans) -> _Flags:
        """Tell which peaks have one of some ascending scans between their feet: bool, shape (n_peaks,)."""
        return np.searchsorted(scans, self.left) < np.searchsorted(scans, self.right, side="right")


def find_peaks(trace: npt.ArrayLike, *, min_height: float, prominence: float | None = None) -> Peaks:
    """Return the peaks of a trace.

    Parameters
    ----------
    trace
        Fluorescence without baseline, shape (n_scans,).
    min_height
        Lowest top, in relative fluorescence units.
    prominence
        How far the trace must rise before a top and fall after it; smaller tops are part of their neighbour. None: half
        of ``min_height``.
    """
    from genolewm_assets.forensic.signal.peak_kernels import list_peaks

    values = np.ascontiguousarray(trace, np.float64)
    found = np.empty((min(len(values) // 2, _MAX_PEAKS), 4), np.int64)
    rise = max(min_height / 2 if prominence is None else prominence, 1e-9)
    n = list_peaks(values, min_height, rise, found) if len(values) > 2 else 0
    left, first, last, right = found[: min(n, len(found))].T
    before, top, after = values[first - 1], values[first], values[np.minimum(last + 1, len(values) - 1)]
    bend = before - 2 * top + after
    shift = np.divide(before - after, 2 * bend, out=np.zeros_like(top), where=bend < 0)
    return Peaks(np.where(first == last, first + shift, (first + last) / 2), top, left, right)


@dataclass(frozen=True, slots=True)
class PullUpRules:
    """When a peak counts as pull-up."""

    #: Largest height relative to the peak of the other dye.
    max_ratio: float = 0.1
    #: The same if that peak saturates the detector, whose true height is then unknown.
    max_ratio_off_scale: float = 0.3
    #: Largest distance of the tops.
    max_scans: float = 3.0


def find_pull_up(peaks: Mapping[int, Peaks], off_scale: _Scans, rules: PullUpRules) -> dict[int, _Flags]:
    """Tell which peaks of each channel may be pull-up of a peak of another channel: bool, shape (n_peaks,).

    Parameters
    ----------
    off_scale
        Scans at which the detector was saturated, ascending.
    """
    flags = {}
    for channel, own in peaks.items():
        flag = np.zeros(len(own), bool)
        for other_channel, other in peaks.items():
            if other_channel != channel and len(other):
                flag |= _is_below(own, other, other.touch(off_scale), rules)
        flags[channel] = flag
    return flags


def _is_below(own: Peaks, other: Peaks, saturated: _Flags, rules: PullUpRules) -> _Flags:
    """Tell which peaks have a much higher peak of the other dye beside them, of the two nearest."""
    right = np.searchsorted(other.scan, own.scan)
    flag = np.zeros(len(own), bool)
    for row in (np.maximum(right - 1, 0), np.minimum(right, len(other) - 1)):
        ratio = np.where(saturated[row], rules.max_ratio_off_scale, rules.max_ratio)
        flag |= (np.abs(other.scan[row] - own.scan) <= rules.max_scans) & (own.height <= ratio * other.height[row])
    return flag
