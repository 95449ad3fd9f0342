"""Compiled comparison of edited windows with the reference. Import inside functions only: importing numba is slow."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from genolewm_assets.own_caches import compiled

#: Most differences of one window that are kept.
MOST_DIFFERENCES = 12
#: Longest insertion or deletion that is tried, in bases, and longest side of a replacement.
_LONGEST, _LONGEST_SIDE = 300, 12
#: Bases behind a difference that must agree to take a single substitution at once, and that are compared to choose.
_SURE, _COMPARED = 12, 48

Codes = npt.NDArray[np.uint8]


@compiled(nogil=True)
def _matches(edited: Codes, reference: Codes, i: int, j: int, size: int) -> int:
    n = 0
    for step in range(size):
        if i + step >= edited.size or j + step >= reference.size:
            return n + (size - step) // 2
        n += edited[i + step] == reference[j + step]
    return n


@compiled(nogil=True)
def _step(edited: Codes, reference: Codes, i: int, j: int) -> tuple[int, int]:
    """Return how many bases of the reference and of the edited window the difference at ``j``, ``i`` has."""
    if _matches(edited, reference, i + 1, j + 1, _SURE) == _SURE:
        return 1, 1
    best, lost, gained = -1.0, 1, 1
    for size in range(_LONGEST + 1):
        for kind in range(2 if size else 1):
            if size == 0:
                n_ref, n_alt = 1, 1
            elif kind == 0:
                n_ref, n_alt = 0, size
            else:
                n_ref, n_alt = size, 0
            score = _matches(edited, reference, i + n_alt, j + n_ref, _COMPARED) - 0.01 * size
            if score > best:
                best, lost, gained = score, n_ref, n_alt
    for n_ref in range(1, _LONGEST_SIDE + 1):
        for n_alt in range(1, _LONGEST_SIDE + 1):
            score = _matches(edited, reference, i + n_alt, j + n_ref, _COMPARED) - 0.5 * max(n_ref, n_alt)
            if score > best:
                best, lost, gained = score, n_ref, n_alt
    return lost, gained


@compiled(nogil=True)
def find_differences(edited: Codes, reference: Codes, found: npt.NDArray[np.int64]) -> int:
    """Write the differences of an edited window from the reference, from left to right, and return their number.

    ``found``: int64, shape (MOST_DIFFERENCES, 4): first base and number of bases in the reference, the same in the
    window. -1 if there are more. What lies behind the reference's end is not compared.
    """
    i = j = n = 0
    while i < edited.size:
        if j >= reference.size:
            return n
        if edited[i] == reference[j]:
            i += 1
            j += 1
            continue
        if n == len(found):
            return -1
        lost, gained = _step(edited, reference, i, j)
        lost, gained = min(lost, reference.size - j), min(gained, edited.size - i)
        found[n, 0], found[n, 1], found[n, 2], found[n, 3] = j, lost, i, gained
        n += 1
        i += gained
        j += lost
    return n
