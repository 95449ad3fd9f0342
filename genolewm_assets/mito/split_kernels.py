"""Compiled loops over pairs of genomes."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

_UNKNOWN = -1


@njit(cache=True, nogil=True)
def link_near(
    offsets: NDArray[np.int64], places: NDArray[np.int64], codes: NDArray[np.int64], limit: int
) -> NDArray[np.int64]:
    """Return for each genome the first one of its group: all that hang together by pairs at most ``limit`` apart.

    Parameters
    ----------
    offsets
        int64, shape (n_genomes + 1,).
    places, codes
        int64, shape (n_entries,); of genome i from ``offsets[i]`` on, places rising; -1 is an unknown base.
    """
    n = offsets.shape[0] - 1
    root = np.arange(n)
    for i in range(1, n):
        for j in range(i):
            one, other = j, i
            while root[one] != one:
                one = root[one]
            while root[other] != other:
                other = root[other]
            if one == other:
                continue
            a, b, found = offsets[i], offsets[j], 0
            while found <= limit and (a < offsets[i + 1] or b < offsets[j + 1]):
                if b == offsets[j + 1] or (a < offsets[i + 1] and places[a] < places[b]):
                    found += codes[a] != _UNKNOWN
                    a += 1
                elif a == offsets[i + 1] or places[b] < places[a]:
                    found += codes[b] != _UNKNOWN
                    b += 1
                else:
                    found += codes[a] != codes[b] and codes[a] != _UNKNOWN and codes[b] != _UNKNOWN
                    a += 1
                    b += 1
            if found <= limit:
                root[max(one, other)] = min(one, other)
    for i in range(n):
        root[i] = root[root[i]]
    return root


@njit(cache=True, nogil=True)
def least_difference(bases: NDArray[np.int16], sides: NDArray[np.int64], most: int) -> int:
    """Return the fewest places at which two rows of different sides differ, at most ``most``; -1 without such rows.

    Parameters
    ----------
    bases
        int16, shape (n_genomes, n_places); -1 differs from nothing.
    sides
        int64, shape (n_genomes,).
    """
    least = -1
    for i in range(bases.shape[0]):
        for j in range(i):
            if sides[i] == sides[j]:
                continue
            bound = most if least < 0 else least
            found = 0
            for place in range(bases.shape[1]):
                a, b = bases[i, place], bases[j, place]
                found += a != b and a != _UNKNOWN and b != _UNKNOWN
                if found >= bound:
                    break
            least = min(bound, found)
    return least
