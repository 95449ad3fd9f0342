"""The 31-mers of held-out sequence outside repeats, as sorted arrays that a sequence is compared with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from genolewm_assets.audit.reading.intervals import Span
from genolewm_assets.audit.reading.reference import Codes, Reference

#: A 31-mer that the reference holds more often counts as a repeat, where the FASTA is not soft-masked.
MOST_COPIES = 4
#: Bases on both sides of such a 31-mer that count as the same repeat: other copies of it differ there.
REPEAT_BP = 150
#: Bases of held-out sequence whose 31-mers are held in memory at once: 16 bytes each while they are sorted.
PART_BP = 1 << 26

#: Leading bits of a key that tell its bucket, at most.
_MOST_BITS = 25

Keys = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class KmerTable:
    """Sorted keys of 31-mers, and where those with equal leading bits begin.

    Attributes
    ----------
    keys
        uint64, shape (n,), sorted, unique.
    firsts
        int64, shape (2**bits + 1,): first key of each bucket.
    shift
        Bits of a key that do not tell the bucket.
    """

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


def count_in_reference(table: KmerTable, reference: Reference) -> npt.NDArray[np.uint8]:
    """Return how often the reference holds each 31-mer of a table, on either strand, at most 255."""
    from genolewm_assets.audit.kmer_kernels import K, count_keys

    counts = np.zeros(table.keys.size, dtype=np.uint8)
    for contig in reference:
        for codes in reference.chunks(contig, K - 1):
            count_keys(keys_of(codes), table.keys, table.firsts, table.shift, counts)
    return counts


def held_tables(reference: Reference, spans: Sequence[Span], *, soft_masked: bool) -> Iterator[KmerTable]:
    """Yield the 31-mers of merged held-out spans outside repeats, part by part.

    Parameters
    ----------
    soft_masked
        Whether repeats are the FASTA's lower-case bases; else they are 31-mers that it holds more than
        :data:`MOST_COPIES` times. Simple sequence is left out in either case.
    """
    from genolewm_assets.audit.kmer_kernels import kmer_keys

    for part in _parts(spans):
        keys, at = np.empty(sum(span.end - span.start for span in part), dtype=np.uint64), 0
        for span in part:
            size = span.end - span.start
            kmer_keys(reference.fetch(*span), soft_masked, True, keys[at : at + size])
            at += size
        table = KmerTable.of(keys if soft_masked else keys.copy())
        if not soft_masked:
            frequent = table.keys[count_in_reference(table, reference) > MOST_COPIES]
            table = KmerTable.of(_outside(keys, np.cumsum([0, *(span.end - span.start for span in part)]), frequent))
        yield table


def _outside(keys: Keys, bounds: npt.NDArray[np.int64], frequent: Keys) -> Keys:
    """Return the keys of sequences that are more than :data:`REPEAT_BP` from a frequent one of the same sequence.

    Parameters
    ----------
    bounds
        Where the first sequence begins, and where each ends.
    """
    at = np.searchsorted(frequent, keys)
    near = np.flatnonzero(frequent[np.minimum(at, frequent.size - 1)] == keys) if frequent.size else at[:0]
    steps = np.zeros(keys.size + 1, dtype=np.int32)
    behind = np.searchsorted(bounds, near, side="right")
    np.add.at(steps, np.maximum(bounds[behind - 1], near - REPEAT_BP), 1)
    np.add.at(steps, np.minimum(bounds[behind], near + REPEAT_BP + 1), -1)
    outside: Keys = keys[np.cumsum(steps)[:-1] == 0]
    return outside


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
