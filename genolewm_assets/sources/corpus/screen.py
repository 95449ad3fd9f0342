"""Names the parts of a genome that may hold a sequence, by the sampled 15-mers that it shares with each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from genolewm_assets.sources.corpus.genome_slices import GenomeSlices, Stretch

#: Share of the sampled 15-mers that a sequence has in common with a part that holds it. An alignment of 90 % of the
#: sequence with 95 % matching columns leaves at least 22 % of them whole; chance gives less than 10 %.
MIN_SHARE = 0.14
#: A part cannot hold a place that is as good as that in the part with the fewest missing 15-mers if it misses over this
#: many times as many, and this many more. Repeats give most parts of a genome more than the smallest share.
MOST_MISSING, MORE_MISSING = 4, 32
_READ_BP = 1 << 22


class PartScreen:
    """Which parts hold each sampled 15-mer, on either strand: a bit mask of parts a row, in a mapped file.

    The file has 64 MiB for each eight parts; 0.9 GiB for a human genome.
    """

    def __init__(self, path: Path, n_parts: int) -> None:
        # A plain array, because numba compiles a loop once more for each class.
        self._held = np.asarray(_mapped(path, n_parts, "r")).view(np.ndarray)
        self._n_parts = n_parts
        self._counts = np.zeros(8 * self._held.shape[1], dtype=np.int64)

    @staticmethod
    def write(path: Path, parts: Sequence[tuple[Stretch, ...]], genome: GenomeSlices) -> None:
        """Write the masks of all 15-mers of the parts of a genome."""
        from genolewm_assets.sources.corpus import kernels

        held = _mapped(path, len(parts), "w+")
        for part, stretches in enumerate(parts):
            for bases in (bases for stretch in stretches for bases in _pieces(stretch, genome, kernels.K - 1)):
                kernels.add_part(np.frombuffer(bases, np.uint8), kernels.CODES, part, np.asarray(held).view(np.ndarray))
        held.flush()

    def find(self, sequence: bytes) -> list[int]:
        """Return the numbers of the parts that may hold most of an upper-case sequence, on either strand."""
        from genolewm_assets.sources.corpus import kernels

        bases = np.frombuffer(sequence, np.uint8)
        sampled = kernels.count_shared(bases, kernels.CODES, self._held, self._counts)
        shared = self._counts[: self._n_parts]
        most = MOST_MISSING * (sampled - int(shared.max())) + MORE_MISSING
        found: list[int] = np.flatnonzero((shared >= MIN_SHARE * sampled) & (sampled - shared <= most)).tolist()
        return found


def _mapped(path: Path, n_parts: int, mode: Literal["r", "w+"]) -> np.memmap[Any, np.dtype[np.uint8]]:
    from genolewm_assets.sources.corpus import kernels

    return np.memmap(path, np.uint8, mode, shape=(kernels.ROWS, -(-n_parts // 8)))


def _pieces(stretch: Stretch, genome: GenomeSlices, overlap: int) -> Iterator[bytes]:
    """Yield the bases of a stretch; each piece but the first repeats ``overlap`` bases."""
    for start in range(stretch.start, stretch.end, _READ_BP):
        first = max(stretch.start, start - overlap)
        yield genome.read(stretch._replace(start=first, end=min(stretch.end, start + _READ_BP)))
