"""The 31-mers of held-out sequence outside repeats, as sorted arrays that a sequence is compared with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.audit.reading.intervals import HeldSpans, Span
from genolewm_assets.audit.reading.reference import MASKED, Codes, Reference, mapped, mapped_zeros, unmasked
from genolewm_assets.audit.reading.window_bases import Bases

#: Where the FASTA is not soft-masked, a k-mer of this length that it holds more often is a repeat.
REPEAT_K, MOST_COPIES = 21, 8
#: Bases on both sides of such a k-mer that count as the same repeat: other copies of it differ there.
REPEAT_BP = 50
#: K-mers that are sorted in memory at once, 8 bytes each; then they are in a file.
PART_BP = 1 << 22

#: Bits of the filter for each key, and keys of a bucket, as powers of 2.
_FILTER, _BUCKET = 4, 3

Keys = npt.NDArray[np.uint64]


class KmerTable(NamedTuple):
    """Sorted, unique keys, the first of each bucket of equal leading bits, and two bits of each in a filter."""

    keys: Keys
    firsts: npt.NDArray[np.int64]
    shift: np.uint64
    filter_bits: Keys
    filter_shift: np.uint64

    @classmethod
    def of(cls, keys: Keys) -> Self:
        """Make a table of keys in any order, which is sorted in place; keys that stand for no k-mer are left out."""
        return cls.joined([keys])

    @classmethod
    def joined(cls, parts: Iterable[Keys]) -> Self:
        """Make a table of the keys of parts, each sorted in place, which are then joined a range of keys at a time."""
        return cls.of_kept([_kept(part) for part in parts])

    @classmethod
    def of_kept(cls, parts: Sequence[Keys]) -> Self:
        """Make a table of the keys of sorted parts."""
        return cls._of_sorted(_joined(parts))

    def those(self, is_kept: npt.NDArray[np.bool_]) -> Self:
        """Return a table of some of the keys."""
        parts = (slice(at, at + PART_BP) for at in range(0, max(1, self.keys.size), PART_BP))
        return self._of_sorted(self.keys[part][is_kept[part]] for part in parts)

    @classmethod
    def _of_sorted(cls, parts: Iterable[Keys]) -> Self:
        from genolewm_assets.audit import kmer_kernels as kernels

        keys = mapped(parts)
        bits = max(6, int(keys.size).bit_length())
        firsts = mapped_zeros((1 << max(1, bits - _BUCKET)) + 1, np.int64)
        shift, filter_shift = np.uint64(64 - max(1, bits - _BUCKET)), np.uint64(64 - bits - _FILTER)
        filter_bits = mapped_zeros(1 << (bits + _FILTER - 6), np.uint64)
        kernels.find_buckets(keys, shift, firsts, filter_shift, filter_bits)
        return cls(keys, firsts, shift, filter_bits, filter_shift)


class SievedTable(NamedTuple):
    """31-mers, and the least 19-mer of each, by which most that are not of the table are told at once."""

    kmers: KmerTable
    least: KmerTable

    @classmethod
    def of(cls, kmers: KmerTable) -> Self:
        """Make the table of the least 19-mers."""
        keys = kmers.keys
        return cls(kmers, KmerTable.joined(_least(keys[at : at + PART_BP]) for at in range(0, keys.size, PART_BP)))


def _kept(keys: Keys) -> Keys:
    """Return the different keys in order, in a file."""
    from genolewm_assets.audit.kmer_kernels import keep_different

    keys.sort()
    return mapped([keys[: keep_different(keys)]])


def _joined(parts: Sequence[Keys]) -> Iterator[Keys]:
    """Yield the different keys of sorted parts in order."""
    from genolewm_assets.audit.kmer_kernels import keep_different

    n_ranges = sum(part.size for part in parts) // PART_BP + 1
    starts = np.array([(at << 64) // n_ranges for at in range(n_ranges)], np.uint64)
    bounds = [[*np.searchsorted(part, starts).tolist(), part.size] for part in parts]
    for at in range(n_ranges):
        ours = [part[places[at] : places[at + 1]] for part, places in zip(parts, bounds, strict=True)]
        keys = np.concatenate([np.empty(0, np.uint64), *ours])
        keys.sort()
        yield keys[: keep_different(keys)]


def _least(keys: Keys) -> Keys:
    from genolewm_assets.audit.kmer_kernels import least_keys

    least = np.empty(keys.size, np.uint64)
    least_keys(keys, least)
    return least


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


class HeldSequence:
    """The 31-mers of held-out sequence outside repeats, sorted when they are first asked for."""

    def __init__(self, reference: Reference, held: HeldSpans) -> None:
        self._reference, self._spans = reference, list(held)
        #: Whether lower case marks repeats in the FASTA.
        self.soft_masked = reference.has_soft_mask()
        #: Number of these 31-mers, each as often as it is there; known once they are asked for.
        self.n_kmers = 0

    @cached_property
    def table(self) -> SievedTable:
        """All of them, which may be none."""
        return SievedTable.of(KmerTable.joined(self._keys()))

    def among(self, windows: Iterable[pa.RecordBatch]) -> SievedTable:
        """Return those that windows have, flanks behind them included; or all, as where the windows have more bases."""
        from genolewm_assets.audit.kmer_kernels import keep_known

        parts, left = list[Keys](), sum(span.end - span.start for span in self._spans)
        for batch in windows:
            texts = pc.binary_join_element_wise(
                batch["sequence"], batch["right_flank"], "", null_handling="replace", null_replacement=""
            )
            keys = keys_of(Bases.of(texts).codes)
            left -= keys.size
            if left < 0 or "table" in self.__dict__:
                return self.table
            parts.append(_kept(keys))
        theirs = KmerTable.of_kept(parts)
        return SievedTable.of(KmerTable.joined(keys[: keep_known(keys, theirs)] for keys in self._keys()))

    def _keys(self) -> Iterator[Keys]:
        from genolewm_assets.audit.kmer_kernels import NO_KEY

        self.n_kmers = 0
        for keys in held_31mers(self._reference, self._spans, soft_masked=self.soft_masked):
            self.n_kmers += int(np.count_nonzero(keys != NO_KEY))
            yield keys


def held_31mers(reference: Reference, spans: Sequence[Span], *, soft_masked: bool) -> Iterator[Keys]:
    """Yield the keys of the 31-mers of merged held-out spans, each as often as it is there; ``NO_KEY`` in repeats."""
    frequent = np.empty(0, np.uint64)
    if not soft_masked:
        table = KmerTable.joined(_keys_in(reference, part, REPEAT_K) for part in _parts(spans))
        frequent = table.those(count_in_reference(table, reference, REPEAT_K) > MOST_COPIES).keys

    def masked(codes: Codes) -> Codes:
        return codes if soft_masked else _without_repeats(unmasked(codes), frequent)

    for part in _parts(spans):
        yield _keys_in(reference, part, 31, masked)


def _keys_in(
    reference: Reference, part: Sequence[Span], k: int, masked: Callable[[Codes], Codes] | None = None
) -> Keys:
    """Return the keys of the k-mers of spans; with ``masked``, which masks repeats, of those that count as held out."""
    from genolewm_assets.audit.kmer_kernels import kmer_keys

    keys, at = np.empty(sum(span.end - span.start for span in part), dtype=np.uint64), 0
    for span in part:
        codes = reference.fetch(*span)
        ours, at = keys[at : at + codes.size], at + codes.size
        if masked is None:
            kmer_keys(codes, False, False, ours, k)
        else:
            kmer_keys(masked(codes), True, True, ours, k)
    return keys


def _without_repeats(codes: Codes, frequent: Keys) -> Codes:
    """Return bases of which those within :data:`REPEAT_BP` of a frequent k-mer are masked, in place."""
    keys = keys_of(codes, REPEAT_K)
    at = np.minimum(np.searchsorted(frequent, keys), frequent.size - 1)
    near = np.flatnonzero(frequent[at] == keys) if frequent.size else at[:0]
    steps = np.zeros(codes.size + 1, dtype=np.int32)
    np.add.at(steps, np.maximum(0, near - REPEAT_BP), 1)
    np.add.at(steps, np.minimum(codes.size, near + REPEAT_K + REPEAT_BP), -1)
    codes[np.cumsum(steps)[:-1] > 0] |= MASKED
    return codes


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
