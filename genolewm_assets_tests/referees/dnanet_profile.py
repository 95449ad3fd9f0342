"""What DNANet (Netherlands Forensic Institute, Apache-2.0) documents of its size standard, grid and baseline."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

WEN_ILS_BP = np.array([65, 80, *range(100, 201, 20), *range(225, 476, 25)], np.float64)
GRID_BP = np.linspace(65, 475, 4_096)


def standard_peaks(trace: npt.NDArray[np.int16], threshold: int = 120) -> npt.NDArray[np.intp] | None:
    """Return the scans of the fragments from 65 to 475 bp: of the last 20 peaks all but the last.

    None, so that the profile is skipped, unless a base pair has 7 to 13 scans between all of them.
    """
    values = trace.astype(np.int64)
    before, after = np.r_[0, values[:-1]], np.r_[values[1:], 0]
    rises = ((values >= before) & (values > after)) | ((values > before) & (values >= after))
    peaks = np.flatnonzero(rises & (values >= threshold))
    apart = np.r_[np.diff(peaks) > 15, True]
    found = peaks[apart][-20:-1]
    density = np.diff(found) / np.diff(WEN_ILS_BP) if len(found) == len(WEN_ILS_BP) else np.zeros(1)
    return found if ((density >= 7) & (density <= 13)).all() else None


def spline_sizes(scans: npt.NDArray[np.intp], sizes: npt.NDArray[np.float64], n_scans: int) -> npt.NDArray[np.float64]:
    """Return the natural cubic spline through the fragments at every scan, and 0 outside of them."""
    step, slope = np.diff(scans).astype(np.float64), np.diff(sizes) / np.diff(scans)
    n = len(scans)
    system, right = np.eye(n), np.zeros(n)
    for k in range(1, n - 1):
        system[k, k - 1 : k + 2] = step[k - 1], 2 * (step[k - 1] + step[k]), step[k]
        right[k] = 6 * (slope[k] - slope[k - 1])
    bend = np.linalg.solve(system, right)
    at = np.arange(n_scans, dtype=np.float64)
    k = np.clip(np.searchsorted(scans, at, side="right") - 1, 0, n - 2)
    x = at - scans[k]
    found = sizes[k] + x * (slope[k] - step[k] * (2 * bend[k] + bend[k + 1]) / 6)
    found += x**2 * bend[k] / 2 + x**3 * (bend[k + 1] - bend[k]) / (6 * step[k])
    return np.where((at < scans[0]) | (at > scans[-1]), 0.0, found)


def grid_scans(sizes: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    """Return the scan nearest to each point of the grid."""
    return np.array([np.abs(sizes - point).argmin() for point in GRID_BP])


def superior(raw: npt.NDArray[np.int16]) -> npt.NDArray[np.int16]:
    """Return a trace without the running 20th percentile of 101 scans; the ends are continued."""
    values = raw.astype(np.int64)
    padded = np.pad(values, 50, mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, 101)
    baseline = np.sort(windows, axis=1)[:, int(101 * 0.2)]
    return np.clip(values - baseline, -32_768, 32_767).astype(np.int16)
