"""Filter over the 21-mers of all held-out sequence, which tells the windows that may be similar to some of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.sources.similarity.held_part import LETTERS, Codes, HeldPart
from genolewm_assets.sources.similarity.query_batch import QueryBatch

#: Bits by base of held-out sequence.
_BITS = 16


class PresenceFilter:
    """Bloom filter over 21-mers and their kinds, in a mapped file of two bytes by held-out base."""

    def __init__(self, path: Path, n_bases: int) -> None:
        from genolewm_assets.sources.similarity.presence_kernels import LINE

        n_lines = 1 + n_bases * _BITS // (64 * LINE)
        words = np.memmap(path, dtype=np.uint64, mode="w+", shape=(n_lines * LINE,))
        self.words: NDArray[np.uint64] = np.asarray(words)

    def add(self, part: HeldPart) -> None:
        """Add the 21-mers of a part of held-out sequence."""
        from genolewm_assets.sources.similarity.presence_kernels import add_to_filter

        add_to_filter(part.codes, part.kinds, self.words)

    def screen(
        self, queries: QueryBatch, stretch: int, least: int
    ) -> tuple[NDArray[np.int32], Codes, NDArray[np.int64]]:
        """Return what each window may share, bits of bases, and where those begin; see ``presence_kernels.screen``."""
        from genolewm_assets.sources.similarity.presence_kernels import screen

        firsts = np.zeros(len(queries) + 1, dtype=np.int64)
        np.cumsum((queries.sizes + 7) // 8, out=firsts[1:])
        hits, most = np.zeros(firsts[-1], dtype=np.uint8), np.empty((len(queries), 3), dtype=np.int32)
        screen(queries.data, queries.offsets, LETTERS, self.words, stretch, least, hits, firsts, most)
        return most, hits, firsts
