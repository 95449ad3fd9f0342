"""The 31-mers of held-out sequence outside repeats, as sorted arrays that a sequence is compared with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from genolewm_assets.audit.reading.intervals import Span
from genolewm_assets.audit.reading.reference import MASKED, Codes, Reference, mapped, unmasked

#: Where the FASTA is not soft-masked, a k-mer of this length that it holds more often is a repeat.
REPEAT_K, MOST_COPIES = 21, 8
#: Bases on both sides of such a k-mer that count as the same repeat: other copies of it differ there.
REPEAT_BP = 50
#: Bases of held-out sequence whose 31-mers are sorted in memory at once, 8 bytes each; then they are in a file.
PART_BP = 1 << 25

#: Bits of the filter for each key, and keys of a bucket, as powers of 2.
_FILTER, _BUCKET = 4, 3

Keys = npt.NDArray[np.uint64]


class KmerTable(NamedTuple):
    """Sorted, unique keys, the first of each bucket of equal leading bits, and a bit for each longer leading part."""

    keys: Keys
    firsts: npt.NDArray[np.int64]
    shift: np.uint64
    filter_bits: Keys
    filter_shift: np.uint64

    @classmethod
    def of(cls, keys: Keys) -> Self:
        """Make a table of keys in any order, which is sorted in place; keys that stand for no 31-mer are left out."""
        from genolewm_assets.audit import kmer_kernels as kernels

        keys.sort()
        kept = keys[: kernels.keep_different(keys)]
        bits = max(6, int(kept.size).bit_length())
        firsts = np.empty((1 << max(1, bits - _BUCKET)) + 1, dtype=np.int64)
        shift, filter_shift = np.uint64(64 - max(1, bits - _BUCKET)), np.uint64(64 - bits - _FILTER)
        filter_bits = np.zeros(1 << (bits + _FILTER - 6), dtype=np.uint64)
        kernels.find_buckets(kept, shift, firsts, filter_shift, filter_bits)
        return cls(mapped([kept]), mapped([firsts]), shift, mapped([filter_bits]), filter_shift)


def keys_of(codes: Codes, k: int = 31, *, skip_masked: bool = False, skip_simple: bool = False) -> Keys:
    """Return the key of the k-mer at every base; see ``kmer_kernels.kmer_keys``."""
    from genolewm_assets.audit.kmer_kernels import kmer_keys

    keys = np.empty(codes.size, dtype=np.uint64)
    kmer_keys(codes, skip_masked, skip_simple, keys, k)
    return keys


def count_in_reference(table: KmerTable, reference: Reference, k: int = 31) -> npt.NDArray[np.uint8]:
    """Return how often the reference holds each k-mer of a table, on either strand, at most 255."""
    from genolewm_assets.audit.kmer_kernels import count_keys

    counts = np.zeros(table.keys.size, dtype=np.uint8)
    for contig in reference:
        for codes in reference.chunks(contig, k - 1):
            count_keys(keys_of(codes, k), table, counts)
    return counts


def held_tables(reference: Reference, spans: Sequence[Span], *, soft_masked: bool) -> Iterator[KmerTable]:
    """Yield the 31-mers of merged held-out spans outside repeats, part by part."""
    from genolewm_assets.audit.kmer_kernels import kmer_keys

    for part in _parts(spans):
        sequences = [reference.fetch(*span) for span in part]
        if not soft_masked:
            sequences = [unmasked(codes) for codes in sequences]
            _mask_repeats(sequences, reference)
        keys, at = np.empty(sum(codes.size for codes in sequences), dtype=np.uint64), 0
        for codes in sequences:
            kmer_keys(codes, True, True, keys[at : at + codes.size])
            at += codes.size
        yield KmerTable.of(keys)


def _mask_repeats(sequences: Sequence[Codes], reference: Reference) -> None:
    """Mark the bases within :data:`REPEAT_BP` of a frequent k-mer as masked, in place."""
    found = [keys_of(codes, REPEAT_K) for codes in sequences]
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
