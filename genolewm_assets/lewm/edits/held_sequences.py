"""Recognise held-out alleles by the bases that they make, where an edit has no place on the reference.

Not here: held-out alleles by their place (``allele_index``), the rule that applies both (``rules``), the table with the
bases around the alleles (``lewm.packages``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from genolewm_assets.lewm.packages import CONTEXT_BP

#: Bits per key, at least, of the table that answers most queries at once.
_KEY_BITS = 16


class HeldSequences:
    """The 31-mers, of either strand, that held-out alleles make and that the reference at their place lacks.

    Parameters
    ----------
    batches
        Record batches with the columns of ``lewm.packages.PACKAGE_CONTEXTS``.

    Notes
    -----
    A 31-mer takes 10 to 12 bytes, an SNV up to 372. While they are read, up to twice
    that is in use.
    """

    __slots__ = ("_bits", "_has_key", "_keys", "_shift")

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        from genolewm_assets.lewm.edits.kmer_kernels import has_key, keep_different, write_bits, write_new_keys

        parts: list[NDArray[np.uint64]] = []
        for batch in batches:
            (alt_at, alt_text), (ref_at, ref_text) = (_haplotypes(batch, allele) for allele in ("alt", "ref"))
            room = np.empty(alt_text.size, dtype=np.uint64)
            parts.append(room[: write_new_keys(alt_at, alt_text, ref_at, ref_text, room)].copy())
        keys = _joined(parts)
        keys.sort()
        # resize gives the memory of repeated keys back; no other array refers to it.
        keys.resize(keep_different(keys), refcheck=False)
        leading = max(3, (_KEY_BITS * len(keys)).bit_length())
        self._keys, self._shift = keys, np.uint64(64 - leading)
        self._bits = np.zeros(1 << leading - 3, dtype=np.uint8)
        write_bits(keys, self._shift, self._bits)
        self._has_key = has_key

    @classmethod
    def of_arrays(cls, keys: NDArray[np.uint64], shift: np.uint64, bits: NDArray[np.uint8]) -> Self:
        """Return the 31-mers of arrays that :attr:`arrays` gave; they may be maps of files."""
        from genolewm_assets.lewm.edits.kmer_kernels import has_key

        held = cls.__new__(cls)
        held._keys, held._shift, held._bits, held._has_key = keys, shift, bits, has_key
        return held

    def __len__(self) -> int:
        """Return the number of different 31-mers, of which one and its reverse complement count once."""
        return len(self._keys)

    @property
    def arrays(self) -> tuple[NDArray[np.uint64], np.uint64, NDArray[np.uint8]]:
        """Sorted keys, shift and bits, as the functions of ``kmer_kernels`` take them."""
        return self._keys, self._shift, self._bits

    def __contains__(self, bases: str) -> bool:
        """Tell whether upper-case bases contain one of the 31-mers, on either strand; N parts independent texts."""
        return self._has_key(np.frombuffer(bases.encode(), np.uint8), self._keys, self._shift, self._bits)


def around(bases: str, start: int, end: int) -> str:
    """Return the bases ``[start, end)`` with those on both sides that share a 31-mer with one of them."""
    return bases[max(0, start - CONTEXT_BP) : end + CONTEXT_BP]


def _haplotypes(batch: pa.RecordBatch, allele: str) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Return one allele of each row with the bases around it, in Arrow's layout: offsets and bytes of the texts."""
    joined = pc.binary_join_element_wise(batch["left_context"], batch[allele], batch["right_context"], "")
    _, offsets, text = joined.buffers()
    at = np.frombuffer(offsets, dtype=np.int32, count=len(joined) + 1, offset=4 * joined.offset)
    return at, np.frombuffer(text, dtype=np.uint8) if text is not None else np.zeros(0, np.uint8)


def _joined(parts: list[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """Join arrays, freeing each once it is copied."""
    joined = np.empty(sum(map(len, parts)), dtype=np.uint64)
    end = len(joined)
    while parts:
        part = parts.pop()
        joined[end - len(part) : end] = part
        end -= len(part)
    return joined
