"""Compiled loop over the scans of a trace. Import inside functions only: importing numba is slow."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from genolewm_assets.own_caches import compiled


@compiled(nogil=True)
def sliding_rank(trace: npt.NDArray[np.int32], half: int, rank: int, ranked: npt.NDArray[np.int32]) -> None:
    """Write for each scan the value of a rank, from 0, among the ``2 * half + 1`` scans around it.

    Before the first scan and after the last one, the value there is repeated. ``ranked`` is int32, shape (n_scans,).
    """
    n, width = len(trace), 2 * half + 1
    window = np.empty(width, np.int32)
    for at in range(width):
        window[at] = trace[min(max(at - half, 0), n - 1)]
    window.sort()
    ranked[0] = window[rank]
    for scan in range(1, n):
        gone, came = trace[max(scan - 1 - half, 0)], trace[min(scan + half, n - 1)]
        at = np.searchsorted(window, gone)
        while at + 1 < width and window[at + 1] < came:
            window[at] = window[at + 1]
            at += 1
        while at > 0 and window[at - 1] > came:
            window[at] = window[at - 1]
            at -= 1
        window[at] = came
        ranked[scan] = window[rank]
