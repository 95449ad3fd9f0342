"""Recognise held-out alleles by the bases that they make. Not here: by their place (``allele_index``)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from genolewm_assets.edits.held_kmers import LEAST_WORDS, HeldKmers

#: Bits per key, at least, of the table that answers most queries at once.
_KEY_BITS = 16
#: Bytes of 31-mers that are collected in memory.
_MOST_BYTES = 1 << 27

Keys = NDArray[np.uint64]


class HeldSequences:
    """The 31-mers, of either strand, that held-out alleles make and that the reference at their place lacks.

    They are read from ``packages.PACKAGE_CONTEXTS``. A 31-mer takes 10 to 12 bytes, an SNV up to 372; if they are
    many, 8 of these are in a file without a name in ``scratch``, or where the system has temporary files.
    """

    __slots__ = ("table",)

    def __init__(self, batches: Iterable[pa.RecordBatch], scratch: Path | None = None) -> None:
        from genolewm_assets.edits.kmer_kernels import keep_different, write_new_keys, write_seeds

        spool, texts = _Spool(scratch), list[NDArray[np.uint8]]()
        for batch in batches:
            (alt_at, alt_text), (ref_at, ref_text) = (_haplotypes(batch, allele) for allele in ("alt", "ref"))
            room, codes = np.empty(alt_text.size, dtype=np.uint64), np.empty(alt_text.size, dtype=np.uint8)
            spool.append(room[: write_new_keys(alt_at, alt_text, ref_at, ref_text, room, codes)].copy())
            texts.append(codes)
        keys = spool.whole()
        keys.sort()
        keys = keys[: keep_different(keys)]
        n_words = max(LEAST_WORDS, 1 << (_KEY_BITS * len(keys) // 64).bit_length())
        self.table = HeldKmers.of(keys, np.zeros(n_words, dtype=np.uint64))
        for codes in texts:
            write_seeds(codes, self.table.shift, self.table.seeds)

    @classmethod
    def of_table(cls, table: HeldKmers) -> Self:
        """Return the 31-mers of a :attr:`table`, whose arrays may be maps of files."""
        held = cls.__new__(cls)
        held.table = table
        return held

    def __len__(self) -> int:
        """Return the number of different 31-mers, of which one and its reverse complement count once."""
        return len(self.table.keys)

    def __contains__(self, bases: str) -> bool:
        """Tell whether upper-case bases contain one of the 31-mers, on either strand; N parts independent texts."""
        from genolewm_assets.edits.kmer_kernels import has_key

        return bool(has_key(np.frombuffer(bases.encode(), np.uint8), self.table))


def _haplotypes(batch: pa.RecordBatch, allele: str) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Return one allele of each row with the bases around it, in Arrow's layout: offsets and bytes of the texts."""
    joined = pc.binary_join_element_wise(batch["left_context"], batch[allele], batch["right_context"], "")
    _, offsets, text = joined.buffers()
    at = np.frombuffer(offsets, dtype=np.int32, count=len(joined) + 1, offset=4 * joined.offset)
    return at, np.frombuffer(text, dtype=np.uint8) if text is not None else np.zeros(0, np.uint8)


class _Spool:
    """Keys in memory, and those beyond :data:`_MOST_BYTES` in a file without a name."""

    def __init__(self, scratch: Path | None) -> None:
        self._scratch = scratch
        self._file: IO[bytes] | None = None
        self._parts, self._n_bytes = list[Keys](), 0

    def append(self, keys: Keys) -> None:
        self._parts.append(keys)
        self._n_bytes += keys.nbytes
        if self._n_bytes > _MOST_BYTES:
            self._file = self._file or tempfile.TemporaryFile(dir=self._scratch)  # noqa: SIM115 - by `whole`
            self._file.writelines(part.data for part in self._parts)
            self._parts, self._n_bytes = [], 0

    def whole(self) -> Keys:
        """Return all keys, in memory or mapped; nothing can be appended afterwards."""
        if self._file is None:
            return np.concatenate([np.empty(0, np.uint64), *self._parts])
        with self._file as file:
            file.writelines(part.data for part in self._parts)
            file.flush()
            return np.asarray(np.memmap(file, np.uint64, mode="r+"))
