"""Baseline of a trace, for files without analysed traces."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def subtract_baseline(trace: npt.ArrayLike, *, window: int = 201) -> npt.NDArray[np.float64]:
    """Return a trace without its baseline, which is the morphological opening of the trace, smoothed.

    Parameters
    ----------
    trace
        Fluorescence, shape (n_scans,).
    window
        Scans, several times as wide as a peak; rounded up to an odd number.

    Returns
    -------
    numpy.ndarray
        float64, shape (n_scans,), at least 0.
    """
    values = np.asarray(trace, np.float64)
    half = min(window // 2, max(len(values) - 1, 0) // 2)
    if half < 1:
        return values - values.min() if len(values) else values
    opened = -_lowest(-_lowest(values, half), half)
    sums = np.cumsum(np.pad(opened, (half + 1, half), mode="edge"))
    smooth = (sums[2 * half + 1 :] - sums[: -2 * half - 1]) / (2 * half + 1)
    flat: npt.NDArray[np.float64] = np.maximum(values - smooth, 0)
    return flat


def _lowest(values: npt.NDArray[np.float64], half: int) -> npt.NDArray[np.float64]:
    """Return the lowest of ``2 * half + 1`` values round each, by doubling the width of the minimum."""
    width, reach = 2 * half + 1, 1
    lowest = np.pad(values, half, mode="edge")
    while 2 * reach <= width:
        lowest = np.minimum(lowest[:-reach], lowest[reach:])
        reach *= 2
    rest = width - reach
    return np.minimum(lowest[: len(lowest) - rest], lowest[rest:]) if rest else lowest
