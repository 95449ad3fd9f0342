"""Uniform draws that are the same under every NumPy release and on every processor.

NumPy promises to keep the raw output of its bit generators for ever, but not what ``Generator`` makes of it (NEP 19),
and its ``log``/``exp`` differ in the last bit between instruction sets. So everything simulated here comes from
``PCG64.random_raw`` through operations that IEEE 754 defines exactly.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

SEED = 20_240_107


class Draws:
    """One independent stream of draws.

    Parameters
    ----------
    key
        Numbers that name the stream, such as contig and purpose; equal keys give equal streams.
    """

    def __init__(self, *key: int) -> None:
        self._bits = np.random.PCG64(np.random.SeedSequence([SEED, *key]))

    def uniform(self, n: int) -> NDArray[np.float64]:
        """Return ``n`` numbers in [0, 1)."""
        raw: NDArray[np.uint64] = np.asarray(self._bits.random_raw(n), dtype=np.uint64)
        return (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def below(self, high: int, n: int) -> NDArray[np.int64]:
        """Return ``n`` integers in [0, ``high``)."""
        return (self.uniform(n) * high).astype(np.int64)

    def between(self, low: int, high: int, n: int) -> NDArray[np.int64]:
        """Return ``n`` integers in [``low``, ``high``)."""
        return low + self.below(high - low, n)

    def choose(self, weights: Sequence[int] | NDArray[np.int64], n: int) -> NDArray[np.int64]:
        """Return ``n`` indices into ``weights``, each as often as its (integer) weight says."""
        edges = np.cumsum(np.asarray(weights, dtype=np.int64))
        return np.searchsorted(edges, self.below(int(edges[-1]), n), side="right").astype(np.int64)

    def normal(self, n: int) -> NDArray[np.float64]:
        """Return ``n`` nearly normal deviates: the sum of twelve uniforms less six, so within +-6."""
        total = np.zeros(n)
        for _ in range(12):
            total += self.uniform(n)
        return total - 6.0

    def sample(self, population: int, n: int) -> NDArray[np.int64]:
        """Return ``n`` distinct integers of [0, ``population``), sorted."""
        order = np.argsort(self.uniform(population), kind="stable")
        return np.sort(order[:n])
