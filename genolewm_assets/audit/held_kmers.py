"""The 31-mers of held-out sequence outside repeats, as sorted arrays that a sequence is compared with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from genolewm_assets.audit.reading.intervals import Span
from genolewm_assets.audit.reading.reference import MASKED, Codes, Reference, unmasked

#: Where the FASTA is not soft-masked, a k-mer of this length that it holds more often is a repeat.
REPEAT_K, MOST_COPIES = 21, 8
#: Bases on both sides of such a k-mer that count as the same repeat: other copies of it differ there.
REPEAT_BP = 50
#: Bases of held-out sequence whose 31-mers are held in memory at once: 16 bytes each while they are sorted.
PART_BP = 1 << 26

#: Leading bits of a key that tell its bucket, at most.
_MOST_BITS = 25

Keys = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class KmerTable:
    """Sorted, unique keys of 31-mers, and the first key of each bucket of equal leading bits, ``2**bits + 1`` long."""

    keys: Keys
    firsts: npt.NDArray[np.int64]
    shift: np.uint64

    @classmethod
    def of(cls, keys: Keys) -> KmerTable:
        """Make a table of keys in any order, which is sorted in place; keys that stand for no 31-mer are left out."""
        from genolewm_assets.audit import kmer_kernels as kernels

        keys.sort()
        kept = keys[: kernels.keep_different(keys)]
        bits = max(1, min(_MOST_BITS, int(kept.size).bit_length()))
        shift, firsts = np.uint64(64 - bits), np.empty((1 << bits) + 1, dtype=np.int64)
        kernels.find_buckets(kept, shift, firsts)
        return cls(kept, firsts, shift)

    def without(self, drop: npt.NDArray[np.bool_]) -> KmerTable:
        """Return the table without some of its keys."""
        return KmerTable.of(self.keys[~drop])

    def held(self, codes: Codes) -> npt.NDArray[np.uint8]:
        """Return 1 where the 31-mer that begins at a base is in the table: uint8, shape (n_bases - 30,)."""
        from genolewm_assets.audit import kmer_kernels as kernels

        keys = keys_of(codes)
        found = np.empty(keys.size, dtype=np.uint8)
        kernels.held_kmers(keys, self.keys, self.firsts, self.shift, found)
        return found[: max(0, codes.size - kernels.K + 1)]


def keys_of(codes: Codes, *, skip_masked: bool = False, skip_simple: bool = False) -> Keys:
    """Return the key of the 31-mer at every base; see ``kmer_kernels.kmer_keys``."""
    from genolewm_assets.audit.kmer_kernels import kmer_keys

    keys = np.empty(codes.size, dtype=np.uint64)
    kmer_keys(codes, skip_masked, skip_simple, keys)
    return keys


def count_in_reference(table: KmerTable, reference: Reference, k: int = 31) -> npt.NDArray[np.uint8]:
    """Return how often the reference holds each k-mer of a table, on either strand, at most 255."""
    from genolewm_assets.audit.kmer_kernels import count_keys, kmer_keys

    counts = np.zeros(table.keys.size, dtype=np.uint8)
    for contig in reference:
        for codes in reference.chunks(contig, k - 1):
            keys = np.empty(codes.size, dtype=np.uint64)
            kmer_keys(codes, False, False, keys, k)
            count_keys(keys, table.keys, table.firsts, table.shift, counts)
    return counts


def held_tables(reference: Reference, spans: Sequence[Span], *, soft_masked: bool) -> Iterator[KmerTable]:
    """Yield the 31-mers of merged held-out spans outside repeats, part by part."""
    for part in _parts(spans):
        sequences = [reference.fetch(*span) for span in part]
        if not soft_masked:
            sequences = [unmasked(codes) for codes in sequences]
            _mask_repeats(sequences, reference)
        yield KmerTable.of(np.concatenate([keys_of(codes, skip_masked=True, skip_simple=True) for codes in sequences]))


def _mask_repeats(sequences: Sequence[Codes], reference: Reference) -> None:
    """Mark the bases within :data:`REPEAT_BP` of a frequent k-mer as masked, in place."""
    from genolewm_assets.audit.kmer_kernels import kmer_keys

    found = [np.empty(codes.size, dtype=np.uint64) for codes in sequences]
    for codes, keys in zip(sequences, found, strict=True):
        kmer_keys(codes, False, False, keys, REPEAT_K)
    table = KmerTable.of(np.concatenate(found))
    frequent = table.keys[count_in_reference(table, reference, REPEAT_K) > MOST_COPIES]
    if not frequent.size:
        return
    for codes, keys in zip(sequences, found, strict=True):
        at = np.minimum(np.searchsorted(frequent, keys), frequent.size - 1)
        near = np.flatnonzero(frequent[at] == keys)
        steps = np.zeros(codes.size + 1, dtype=np.int32)
        np.add.at(steps, np.maximum(0, near - REPEAT_BP), 1)
        np.add.at(steps, np.minimum(codes.size, near + REPEAT_K + REPEAT_BP), -1)
        codes[np.cumsum(steps)[:-1] > 0] |= MASKED


def _parts(spans: Iterable[Span]) -> Iterator[list[Span]]:
    part, size = list[Span](), 0
    for span in spans:
        for start in range(span.start, span.end, PART_BP):
            # Pieces of one span overlap by a 31-mer less one base.
            piece = Span(span.contig, max(span.start, start - 30), min(span.end, start + PART_BP))
            part.append(piece)
            size += piece.end - piece.start
            if size >= PART_BP:
                yield part
                part, size = [], 0
    if part:
        yield part
