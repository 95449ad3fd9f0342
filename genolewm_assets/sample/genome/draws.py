"""Random numbers that are equal under every NumPy release and on every processor.

NumPy guarantees only the raw output of its bit generators (NEP 19), and its ``log`` and ``exp`` differ between
instruction sets. All values come from ``PCG64.random_raw`` by operations that IEEE 754 defines exactly.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

SEED = 20_240_107


class Draws:
    """One independent stream of random numbers; equal keys, such as contig and purpose, give equal streams."""

    def __init__(self, *key: int) -> None:
        self._bits = np.random.PCG64(np.random.SeedSequence([SEED, *key]))

    def uniform(self, n: int) -> NDArray[np.float64]:
        """Return ``n`` uniform numbers in [0, 1), float64, shape (n,)."""
        raw: NDArray[np.uint64] = np.asarray(self._bits.random_raw(n), dtype=np.uint64)
        return (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def below(self, high: int, n: int) -> NDArray[np.int64]:
        """Return ``n`` uniform integers in [0, ``high``), int64, shape (n,)."""
        return (self.uniform(n) * high).astype(np.int64)

    def between(self, low: int, high: int, n: int) -> NDArray[np.int64]:
        """Return ``n`` uniform integers in [``low``, ``high``), int64, shape (n,)."""
        return low + self.below(high - low, n)

    def choose(self, weights: Sequence[int] | NDArray[np.int64], n: int) -> NDArray[np.int64]:
        """Return ``n`` indices into ``weights``, int64, shape (n,), with probabilities proportional to the weights."""
        edges = np.cumsum(np.asarray(weights, dtype=np.int64))
        return np.searchsorted(edges, self.below(int(edges[-1]), n), side="right").astype(np.int64)

    def normal(self, n: int) -> NDArray[np.float64]:
        """Return ``n`` nearly normal deviates, float64, shape (n,): the sum of twelve uniforms minus 6."""
        total = np.zeros(n)
        for _ in range(12):
            total += self.uniform(n)
        return total - 6.0

    def sample(self, population: int, n: int) -> NDArray[np.int64]:
        """Return ``n`` distinct integers in [0, ``population``), int64, shape (n,), sorted."""
        order = np.argsort(self.uniform(population), kind="stable")
        return np.sort(order[:n])
