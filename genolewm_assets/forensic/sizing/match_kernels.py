"""Compiled search for a size standard among peaks. Import inside functions only: importing numba is slow."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from genolewm_assets.own_caches import compiled

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]

#: Cost of a fragment without peak; of a change of scans per base pair by 5 %; of a change of height by a factor of e.
_SKIP, _BEND, _STEP = 15.0, 0.05, 3.0
#: Largest change of the logarithm of scans per base pair between neighbouring fragments.
_MAX_BEND = 0.35
#: Logarithm of scans per base pair between neighbouring fragments, relative to that of all peaks and all fragments.
_LEAST_SLOPE, _MOST_SLOPE = -1.6, 0.9
_NEVER = 1e18


@compiled(nogil=True)
def match_fragments(scans: Floats, heights: Floats, sizes: Floats, chosen: Rows) -> float:
    """Choose a peak for each fragment, or none, so that scans per base pair and heights change least.

    ``scans`` and ``heights`` (above 0) are peaks in order, ``sizes`` fragments in base pairs, ascending. ``chosen``
    takes the row of each fragment's peak, or -1. Returns the cost; infinite if there is no choice. At most one fragment
    between two chosen ones is left out.
    """
    n, m = len(sizes), len(scans)
    chosen[:] = -1
    # cost[i, g - 1, b, a]: fragment i is peak a, and the one before it, i - g, is peak b.
    cost = np.full((n, 2, m, m), _NEVER)
    came = np.full((n, 2, m, m, 2), np.int16(-1), np.int16)
    if m < 2:
        return np.inf
    overall = np.log((scans[-1] - scans[0]) / (sizes[-1] - sizes[0]))
    best, end_i, end_g, end_b, end_a = np.inf, -1, 1, -1, -1
    for i in range(1, n):
        for g in range(1, min(i, 2) + 1):
            before = i - g
            for b in range(m - 1):
                for a in range(b + 1, m):
                    slope = np.log((scans[a] - scans[b]) / (sizes[i] - sizes[before]))
                    if not _LEAST_SLOPE <= slope - overall <= _MOST_SLOPE:
                        continue
                    step = _STEP * np.log(heights[a] / heights[b]) ** 2 + (g - 1) * _SKIP
                    low, from_g, from_c = before * _SKIP, -1, -1
                    for h in range(1, min(before, 2) + 1):
                        wide = sizes[before] - sizes[before - h]
                        for c in range(b - 1, -1, -1):
                            bend = np.log((scans[b] - scans[c]) / wide) - slope
                            if bend > _MAX_BEND:
                                break
                            if bend >= -_MAX_BEND:
                                total = cost[before, h - 1, c, b] + (bend / _BEND) ** 2
                                if total < low:
                                    low, from_g, from_c = total, h, c
                    cost[i, g - 1, b, a] = low + step
                    came[i, g - 1, b, a, 0], came[i, g - 1, b, a, 1] = from_g, from_c
                    total = low + step + (n - 1 - i) * _SKIP
                    if total < best:
                        best, end_i, end_g, end_b, end_a = total, i, g, b, a
    i, g, b, a = end_i, end_g, end_b, end_a
    while i >= 0:
        chosen[i], chosen[i - g] = a, b
        next_g, c = came[i, g - 1, b, a, 0], came[i, g - 1, b, a, 1]
        if next_g < 0:
            break
        i, g, a, b = i - g, next_g, b, c
    return best
