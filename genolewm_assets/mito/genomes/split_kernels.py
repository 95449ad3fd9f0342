"""Numba-compiled loops over pairs of genomes: single linkage, and least distance between splits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.own_caches import compiled

_UNKNOWN = -1


@compiled(nogil=True)
def link_near(
    root: NDArray[np.int64], offsets: NDArray[np.int64], places: NDArray[np.int64], codes: NDArray[np.int64], limit: int
) -> None:
    """Merge the groups of any two genomes with at most ``limit`` differences (single linkage).

    ``root``, int64, shape (n_genomes,), is the first genome of each group and updated in place. The entries of genome i
    are ``offsets[i]`` to ``offsets[i + 1]`` of ``places`` (position keys, rising within a genome) and ``codes`` (-1: an
    ambiguous base, which counts as no difference), int64.
    """
    n = root.shape[0]
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


@compiled(nogil=True)
def least_difference(
    offsets: NDArray[np.int64],
    places: NDArray[np.int64],
    codes: NDArray[np.int64],
    sides: NDArray[np.int64],
    limit: int,
    near: NDArray[np.int64],
) -> int:
    """Return the fewest differences between two genomes of different splits; -1 if there is no such pair.

    ``offsets``, ``places`` and ``codes`` are as in :func:`link_near`, ``sides`` the number of each genome's split. The
    first pairs with at most ``limit`` differences are written into ``near``, int64, shape (n_pairs, 3): two genomes and
    their differences.
    """
    least, n_near = -1, 0
    here = np.zeros(places.max() + 1 if places.size else 1, dtype=np.int64)
    for i in range(sides.shape[0]):
        own = slice(offsets[i], offsets[i + 1])
        here[places[own]] = codes[own]
        known = np.sum(codes[own] != _UNKNOWN)
        for j in range(i):
            if sides[i] == sides[j]:
                continue
            found = known
            for at in range(offsets[j], offsets[j + 1]):
                mine, other = here[places[at]], codes[at]
                if mine == 0:
                    found += other != _UNKNOWN
                elif mine != _UNKNOWN and other in (_UNKNOWN, mine):
                    found -= 1
            if least < 0 or found < least:
                least = found
            if found <= limit and n_near < near.shape[0]:
                near[n_near, 0], near[n_near, 1], near[n_near, 2] = j, i, found
                n_near += 1
        here[places[own]] = 0
    return least
