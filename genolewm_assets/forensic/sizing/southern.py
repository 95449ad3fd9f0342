"""Local Southern sizing (Southern 1979; Elder and Southern 1983).

Three fragments define a hyperbola of size over scan. Between two fragments the size is the mean of the hyperbola
through these and the one before, and that through these and the one after. Each hyperbola ascends between its
outer points whatever the points are, as long as scans and sizes ascend, so the mean does too.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def local_southern(scans: Floats, sizes: Floats, at: npt.ArrayLike) -> Floats:
    """Return the size at some scans, in base pairs: float64, the shape of ``at``.

    Parameters
    ----------
    scans, sizes
        Fragments of the size standard, at least three, both strictly ascending, shape (n_fragments,).
    at
        Scans; those before the first or after the last fragment get sizes along the tangent there.
    """
    where = np.asarray(at, np.float64)
    inside = np.clip(where, scans[0], scans[-1])
    middle, rise, bend = _hyperbolas(scans, sizes)
    segment = np.clip(np.searchsorted(scans, inside, side="right") - 1, 0, len(scans) - 2)
    lower, upper = np.maximum(segment - 1, 0), np.minimum(segment, len(scans) - 3)
    size = np.zeros_like(inside)
    for curve in (lower, upper):
        distance = inside - scans[middle[curve]]
        size += sizes[middle[curve]] + distance * rise[curve] / (1 + bend[curve] * distance)
    slopes = [_slope(scans, middle[k], rise[k], bend[k], scans[end]) for k, end in ((0, 0), (-1, -1))]
    outside = where - inside
    return size / 2 + outside * np.where(outside < 0, *slopes)


def _hyperbolas(scans: Floats, sizes: Floats) -> tuple[npt.NDArray[np.intp], Floats, Floats]:
    """Return the curves ``sizes[m] + d * rise / (1 + bend * d)``, ``d`` scans from ``m``, through three points each."""
    middle = np.arange(1, len(scans) - 1)
    before, after = scans[:-2] - scans[1:-1], scans[2:] - scans[1:-1]
    first, last = (sizes[:-2] - sizes[1:-1]) / before, (sizes[2:] - sizes[1:-1]) / after
    bend = (first - last) / (sizes[2:] - sizes[:-2])
    return middle, first * (1 + bend * before), bend


def _slope(scans: Floats, middle: np.intp, rise: float, bend: float, at: float) -> float:
    return float(rise / (1 + bend * (at - scans[middle])) ** 2)
