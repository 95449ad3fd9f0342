"""Compiled loop over the scans of a trace. Import inside functions only: importing numba is slow."""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

Trace = npt.NDArray[np.float64]
Scans = npt.NDArray[np.int64]


@numba.njit(nogil=True, cache=True)
def list_peaks(trace: Trace, min_height: float, prominence: float, scans: Scans) -> int:
    """Write left foot, first and last scan of the top, and right foot of every peak; return the number of peaks.

    ``scans`` is int64, shape (n, 4); peaks that it has no room for are counted and not written.
    """
    n, rising, foot = 0, True, 0
    low, top, first, last = trace[0], trace[0], 0, 0
    lowest = 0
    for scan in range(1, len(trace)):
        value = trace[scan]
        if rising:
            if value > top:
                top, first, last = value, scan, scan
            elif value == top and scan == last + 1:
                last = scan
            elif value <= top - prominence:
                if top >= min_height and first > foot:
                    if n < len(scans):
                        scans[n, 0], scans[n, 1], scans[n, 2], scans[n, 3] = foot, first, last, scan
                    n += 1
                rising, low, lowest = False, value, scan
        elif value < low:
            low, lowest = value, scan
        elif value >= low + prominence:
            if 0 < n <= len(scans) and scans[n - 1, 3] < lowest:
                scans[n - 1, 3] = _descend(trace, scans[n - 1, 3], lowest)
            foot = _ascend(trace, lowest, scan)
            rising, top, first, last = True, value, scan, scan
    if not rising and 0 < n <= len(scans):
        scans[n - 1, 3] = _descend(trace, scans[n - 1, 3], lowest)
    return n


@numba.njit(nogil=True, cache=True)
def _descend(trace: Trace, start: int, end: int) -> int:
    """Return the first scan from ``start`` on after which the trace no longer falls."""
    scan = start
    while scan < end and trace[scan + 1] < trace[scan]:
        scan += 1
    return scan


@numba.njit(nogil=True, cache=True)
def _ascend(trace: Trace, start: int, end: int) -> int:
    """Return the last scan up to ``end`` before which the trace does not rise; ``start`` is the lowest scan."""
    scan = end
    while scan > start and trace[scan - 1] < trace[scan]:
        scan -= 1
    return scan
