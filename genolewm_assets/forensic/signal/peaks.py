"""Peaks of a trace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

#: Most peaks of one trace; a ladder has 200.
_MAX_PEAKS = 20_000


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Peaks:
    """Peaks of one trace, in order of their scans.

    Attributes
    ----------
    scan
        Scan of the top, between scans by a parabola through the top and its neighbours: float64, shape (n_peaks,).
    height
        Height of the top in relative fluorescence units: float64, shape (n_peaks,).
    left, right
        First and last scan of the peak, where the trace stops falling: int64, shape (n_peaks,).
    """

    scan: npt.NDArray[np.float64]
    height: npt.NDArray[np.float64]
    left: npt.NDArray[np.int64]
    right: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.scan)

    def __repr__(self) -> str:
        return f"Peaks({len(self)} peaks)"

    def take(self, rows: npt.NDArray[np.bool_] | npt.NDArray[np.intp]) -> Peaks:
        """Return some of the peaks, by row or by mask."""
        return Peaks(self.scan[rows], self.height[rows], self.left[rows], self.right[rows])

    def touch(self, scans: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Tell which peaks have one of some scans between their feet: bool, shape (n_peaks,); ``scans`` ascend."""
        return np.searchsorted(scans, self.left) < np.searchsorted(scans, self.right, side="right")


def find_peaks(trace: npt.ArrayLike, *, min_height: float, prominence: float) -> Peaks:
    """Return the peaks of a trace.

    Parameters
    ----------
    trace
        Fluorescence without baseline, shape (n_scans,).
    min_height
        Lowest top, in relative fluorescence units.
    prominence
        How far the trace must rise before a top and fall after it; smaller tops are part of their neighbour.
    """
    from genolewm_assets.forensic.signal.peak_kernels import list_peaks

    values = np.ascontiguousarray(trace, np.float64)
    found = np.empty((min(len(values) // 2, _MAX_PEAKS), 4), np.int64)
    n = list_peaks(values, min_height, max(prominence, 1e-9), found) if len(values) > 2 else 0
    left, first, last, right = found[: min(n, len(found))].T
    return Peaks(_tops(values, first, last), values[first], left, right)


def _tops(
    values: npt.NDArray[np.float64], first: npt.NDArray[np.int64], last: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    before, top, after = values[first - 1], values[first], values[np.minimum(last + 1, len(values) - 1)]
    bend = before - 2 * top + after
    shift = np.divide(before - after, 2 * bend, out=np.zeros_like(top), where=bend < 0)
    return np.where(first == last, first + shift, (first + last) / 2)
