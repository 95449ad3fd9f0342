"""Held-out sequence that is compared at once: its bases, and a table of its 21-mers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.genome import IntervalArray
from genolewm_assets.sources.reference import FastaReader

#: Bases that are compared at once. Their table takes 8 bytes a base, and one of minimap2's indexes up to 15.
PART_BP = 1 << 24
#: Bases that two parts of one interval share, so that a gene at their border is whole in one of them.
OVERLAP_BP = 2_000_000
#: Slots of the table by 21-mer.
_SLOTS = 1.5

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


class Repeats(Protocol):
    """Rule that tells which bases are in a repeat."""

    def mark(self, codes: Codes) -> Codes:
        """Return codes of ``kmer_kernels``, as the FASTA has them, with repeats marked."""


def divide(held: Mapping[str, IntervalArray], part_bp: int, overlap_bp: int) -> Iterator[list[HeldSpan]]:
    """Divide held-out intervals into parts of about ``part_bp`` bases; a longer interval is cut, with an overlap."""
    part, size = list[HeldSpan](), 0
    for contig, intervals in held.items():
        for start, end in intervals:
            for first in range(start, max(start + 1, end - overlap_bp), part_bp - overlap_bp):
                span = HeldSpan(contig, first, min(end, first + part_bp))
                if part and size + span.end - span.start > part_bp:
                    yield part
                    part, size = [], 0
                part.append(span)
                size += span.end - span.start
    if part:
        yield part


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
        pieces = [encode(reader.read_as_written(*span) + b"N") for span in known]
        firsts = np.cumsum([0, *map(len, pieces)], dtype=np.int64)[:-1]
        codes = repeats.mark(np.concatenate([encode(b""), *pieces]))
        kinds = np.empty(codes.size, dtype=np.uint8)
        find_kinds(codes, kinds)
        return cls(known, firsts, codes, kinds)

    def make_table(self) -> NDArray[np.uint32]:
        """Return the hash table of the 21-mers; see ``kmer_kernels.add_kmers``."""
        from genolewm_assets.sources.similarity import kmer_kernels as kernels

        slots = np.full(max(16, int(_SLOTS * self.codes.size)), kernels.FREE, dtype=np.uint32)
        kernels.add_kmers(self.codes, self.kinds, slots)
        return slots

    def span_at(self, at: int) -> tuple[HeldSpan, int]:
        """Return the span that holds a base of ``codes``, and the base's place on the contig, 0-based."""
        row = int(np.searchsorted(self.firsts, at, side="right")) - 1
        return self.spans[row], self.spans[row].start + at - int(self.firsts[row])

    def write(self, path: Path) -> None:
        """Write the bases as FASTA, each span under its number."""
        letters = np.frombuffer(b"ACGTN", dtype=np.uint8)
        with path.open("wb") as out:
            for number, (span, first) in enumerate(zip(self.spans, self.firsts.tolist(), strict=True)):
                out.write(b">%d\n" % number)
                out.write(letters[self.codes[first : first + span.end - span.start] & 7].tobytes() + b"\n")
