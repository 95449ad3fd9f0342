"""Write the 31-mers of held-out alleles, and which windows of no exact placement spell one of them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from genolewm_assets.edits import HeldKmers, HeldSequences
from genolewm_assets.memory_mapped.layout import KMER_COLUMNS
from genolewm_assets.windows.bases import Create, map_array, write_array


class SpellingWriter:
    """Writes the folder ``held_sequences`` of a split if one of its windows has no exact placement.

    ``contexts`` (``PACKAGE_CONTEXTS``) are read when the first of these windows comes.
    """

    def __init__(self, folder: Path, contexts: Iterable[pa.RecordBatch], create: Create) -> None:
        self._folder, self._contexts, self._create = folder, contexts, create
        self._spells: list[NDArray[np.bool_]] = []
        self._is_needed = False

    def add(self, packed: NDArray[np.uint8], first: NDArray[np.int64], n_bases: NDArray[np.int64]) -> None:
        """Append windows: their packed bases, the first byte of each, and its bases, 0 if it is placed exactly."""
        from genolewm_assets.edits import kmer_kernels

        spells = np.zeros(len(first), dtype=np.bool_)
        if n_bases.any():
            self._is_needed = True
            kmer_kernels.mark_spelling(packed, first, n_bases, self._kmers, spells)
        self._spells.append(spells)

    def finish(self) -> tuple[int | None, int]:
        """Write which windows spell a 31-mer; return the numbers of 31-mers and of seed words for the index."""
        if not self._is_needed:
            return None, 0
        self._write("spells_held", np.concatenate(self._spells))
        return len(self._kmers.keys), len(self._kmers.seeds)

    @cached_property
    def _kmers(self) -> HeldKmers:
        table = HeldSequences(self._contexts).table
        return HeldKmers.of(self._write("keys", table.keys), self._write("seeds", table.seeds))

    def _write(self, name: str, array: NDArray[np.generic]) -> NDArray[np.uint64]:
        """Write an array, and return it mapped."""
        path, dtype = self._folder / f"{name}.npy", KMER_COLUMNS[name].dtype
        write_array(path, array, dtype, self._create)
        return map_array(path, dtype, array.shape)
