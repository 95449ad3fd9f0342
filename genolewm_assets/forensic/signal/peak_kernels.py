"""Compiled loop over the scans of a trace. Import inside functions only: importing numba is slow."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from genolewm_assets.own_caches import compiled

Trace = npt.NDArray[np.float64]
Scans = npt.NDArray[np.int64]


@compiled(nogil=True)
def list_peaks(trace: Trace, min_height: float, prominence: float, scans: Scans) -> int:
    """Write left foot, first and last scan of the top, and right foot of every peak; return the number of peaks.

    ``scans`` is int64, shape (n, 4); peaks that it has no room for are counted and not written.
    """
    n, rising, foot = 0, False, 0
    low, lowest, top, first, last = trace[0], 0, trace[0], 0, 0
    for scan in range(1, len(trace)):
        value = trace[scan]
        if rising:
            if value > top:
                top, first, last = value, scan, scan
            elif value == top and scan == last + 1:
                last = scan
            elif value <= top - prominence:
                if top >= min_height:
                    if n < len(scans):
                        scans[n, 0], scans[n, 1], scans[n, 2] = _left_foot(trace, foot, first, prominence), first, last
                        scans[n, 3] = scan
                    n += 1
                rising, low, lowest = False, value, scan
        elif value < low:
            low, lowest = value, scan
        elif value >= low + prominence:
            if 0 < n <= len(scans) and scans[n - 1, 3] < lowest:
                scans[n - 1, 3] = _descend(trace, scans[n - 1, 3], lowest)
            rising, foot, top, first, last = True, lowest, value, scan, scan
    if not rising and 0 < n <= len(scans) and scans[n - 1, 3] < lowest:
        scans[n - 1, 3] = _descend(trace, scans[n - 1, 3], lowest)
    return n


@compiled(nogil=True)
def _left_foot(trace: Trace, lowest: int, first: int, prominence: float) -> int:
    """Return the scan before a top from which the trace rises, at least ``prominence`` below it."""
    scan = first
    while scan > lowest and trace[scan] > trace[first] - prominence:
        scan -= 1
    while scan > lowest and trace[scan - 1] < trace[scan]:
        scan -= 1
    return scan


@compiled(nogil=True)
def _descend(trace: Trace, start: int, end: int) -> int:
    """Return the first scan from ``start`` on after which the trace no longer falls."""
    scan = start
    while scan < end and trace[scan + 1] < trace[scan]:
        scan += 1
    return scan
