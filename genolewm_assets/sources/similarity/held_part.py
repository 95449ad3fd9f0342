"""Held-out sequence that is compared at once, with a table of its 21-mers, and a filter over those of all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.genome import IntervalArray
from genolewm_assets.sources.reference import FastaReader
from genolewm_assets.sources.similarity.candidates import QueryBatch

#: Bases that are compared at once. Their table takes 8 bytes a base, and one of minimap2's indexes up to 15.
PART_BP = 1 << 24
#: Bases that two parts of one interval share, so that a gene at their border is whole in one of them.
OVERLAP_BP = 2_000_000
#: Slots of the table by 21-mer.
_SLOTS = 1.5
#: Bits of the filter by base of held-out sequence.
_BITS = 16

Codes = NDArray[np.uint8]

#: Codes of ``kmer_kernels``, by byte: U counts as T, lower case is a repeat.
LETTERS = np.full(256, 4, dtype=np.uint8)
for _code, _letters in enumerate((b"Aa", b"Cc", b"Gg", b"TtUu")):
    for _letter in _letters:
        LETTERS[_letter] = _code | (8 if _letter > ord("Z") else 0)


def encode(bases: bytes) -> Codes:
    """Return the codes of ``kmer_kernels``; lower-case bases are marked as in a repeat."""
    return LETTERS[np.frombuffer(bases, dtype=np.uint8)]


class HeldSpan(NamedTuple):
    """Held-out bases ``[start, end)`` of a contig, 0-based."""

    contig: str
    start: int
    end: int


#: Rule that tells which bases are in a repeat: returns codes, as the FASTA has them, with repeats marked.
Repeats = Callable[[Codes], Codes]


def divide(held: Mapping[str, IntervalArray], part_bp: int, overlap_bp: int) -> Iterator[HeldSpan]:
    """Yield held-out intervals, each a span; a longer one than ``part_bp`` is cut from its start, with an overlap."""
    for contig, intervals in held.items():
        for start, end in intervals:
            for first in range(start, max(start + 1, end - overlap_bp), part_bp - overlap_bp):
                yield HeldSpan(contig, first, min(end, first + part_bp))


def pack(spans: Iterable[HeldSpan], part_bp: int) -> list[list[HeldSpan]]:
    """Return parts of up to ``part_bp`` bases that hold all spans in their order."""
    parts, room = list[list[HeldSpan]](), 0
    for span in spans:
        if not parts or span.end - span.start > room:
            parts.append([])
            room = part_bp
        parts[-1].append(span)
        room -= span.end - span.start
    return parts


def count_bases(parts: Iterable[Iterable[HeldSpan]]) -> int:
    """Return the bases of all parts, with the one N behind each span."""
    return sum(span.end - span.start + 1 for spans in parts for span in spans)


@dataclass(frozen=True, slots=True)
class HeldPart:
    """Held-out sequence.

    ``firsts``: int64, shape (n_spans,): index in ``codes`` of the first base of each span; one N follows each span.
    ``codes``: uint8, shape (n_bases,): codes of ``kmer_kernels``, with repeats marked. ``kinds``, likewise: kind of the
    21-mer that begins at each base.
    """

    spans: tuple[HeldSpan, ...]
    firsts: NDArray[np.int64]
    codes: Codes
    kinds: Codes

    @classmethod
    def read(cls, reader: FastaReader, spans: Iterable[HeldSpan], repeats: Repeats) -> HeldPart:
        """Read the spans whose contigs the FASTA has."""
        from genolewm_assets.sources.similarity.kmer_kernels import find_kinds

        known = tuple(span for span in spans if span.contig in reader.contigs)
        pieces = [repeats(encode(reader.read_as_written(*span) + b"N")) for span in known]
        firsts = np.cumsum([0, *map(len, pieces)], dtype=np.int64)[:-1]
        codes = np.concatenate([encode(b""), *pieces])
        kinds = np.empty(codes.size, dtype=np.uint8)
        find_kinds(codes, kinds)
        return cls(known, firsts, codes, kinds)

    def make_table(self) -> NDArray[np.uint32]:
        """Return the hash table of the 21-mers; see ``kmer_kernels.add_kmers``."""
        from genolewm_assets.sources.similarity import kmer_kernels as kernels

        slots = np.full(max(16, int(_SLOTS * self.codes.size)), kernels.FREE, dtype=np.uint32)
        kernels.add_kmers(self.codes, self.kinds, self.firsts, slots)
        return slots

    def codes_of(self, number: int) -> Codes:
        """Return the codes of one span."""
        first, span = int(self.firsts[number]), self.spans[number]
        return self.codes[first : first + span.end - span.start]


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
