"""Compiled permutations of the numbers below n, computed entry by entry. Import inside functions only.

A permutation is a Feistel network over pairs ``(left, right)`` of numbers below a and b, the least with ``a * b >= n``
near the square root; its turns add a word of Philox of the other half. A result beyond n is permuted again.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from genolewm_assets.edits import kernel
from genolewm_assets.training.sampler.draw_kernels import philox

Integers = npt.NDArray[np.int64]

#: Turns of a network. In 200,000 permutations of 5 to 12 numbers, pairs of entries were uneven after 8 and 12 turns,
#: and even after 16.
_TURNS = 20
#: Fourth word of the counter: 0 is that of visits' keys, 1 the order of an epoch, and from 2 on rounds of a stratum.
_EPOCH, _ROUND = 1, 2


@kernel
def permuted(at: int, n: int, seed: Integers, number: int, purpose: int, step: int) -> int:
    """Return entry ``at`` of a permutation of ``n`` numbers, or its place if ``step`` is -1 instead of 1.

    ``seed`` are its two words; ``number`` (of an epoch or round, below 2**32) and ``purpose`` choose the permutation.
    """
    b = np.int64(np.ceil(np.sqrt(n)))
    a = (n + b - 1) // b
    while True:
        left, right = at // b, at % b
        for count in range(_TURNS):
            turn = count if step > 0 else _TURNS - 1 - count
            if turn % 2 == 0:
                left = (left + step * philox(right, turn, number, purpose, seed[0], seed[1])[0]) % a
            else:
                right = (right + step * philox(left, turn, number, purpose, seed[0], seed[1])[0]) % b
        at = left * b + right
        if at < n:
            return at


@kernel
def write_visits(
    seed: Integers, epoch: int, ends: Integers, firsts: Integers, starts: Integers, by_stratum: Integers,
    ordinals: Integers, rows: Integers, again: Integers,
) -> None:  # fmt: skip
    """Write the rows of some visits of an epoch, and how often each row is visited in earlier rounds of the epoch.

    ``ends``, ``firsts``: int64, shape (n_strata,): sums of the visits of the epoch, and visits of a stratum in earlier
    epochs. ``starts``, ``by_stratum``: int64 and int32, shapes (n_strata + 1,) and (n_windows,): rows of windows by
    stratum, and where each stratum begins. ``ordinals``, ``rows``, ``again``: int64, shape (n_visits,): numbers of the
    visits in the epoch, and what is written.
    """
    for k in range(ordinals.size):
        at = permuted(ordinals[k], ends[-1], seed, epoch, _EPOCH, 1)
        stratum, before = 0, 0
        while at >= ends[stratum]:
            before = ends[stratum]
            stratum += 1
        n, visit = starts[stratum + 1] - starts[stratum], firsts[stratum] + at - before
        own, first = visit // n, firsts[stratum] // n
        place = permuted(visit % n, n, seed, own, _ROUND + stratum, 1)
        rows[k], again[k] = by_stratum[starts[stratum] + place], own - first
        # The round in which an epoch begins is the rest of one.
        if own > first and permuted(place, n, seed, first, _ROUND + stratum, -1) < firsts[stratum] % n:
            again[k] -= 1
