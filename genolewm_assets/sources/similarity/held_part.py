"""Held-out sequence that is compared at once: its bases, its repeats and a table of its 21-mers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.genome import IntervalArray
from genolewm_assets.sources.reference import FastaReader

#: Bases that are compared at once. Their table and minimap2's two indexes take up to 55 bytes a base.
PART_BP = 1 << 25
#: Bases that two parts of one interval share, so that a gene at their border is whole in one of them.
OVERLAP_BP = 2_000_000
#: Without a soft-masked FASTA, a 21-mer that the genome holds more often is in a repeat, and so are the bases so near
#: it, in which its copies differ.
MOST_COPIES, REPEAT_BP = 8, 50

#: Shares of a FASTA's bases from which on, and up to which, lower case is taken for its repeats.
MASKED_SHARES = 0.05, 0.9

_READ_BP = 1 << 24

Codes = NDArray[np.uint8]

# Codes of kmer_kernels, by byte: U counts as T, lower case is a repeat.
_CODES = np.full(256, 4, dtype=np.uint8)
for _code, _letters in enumerate((b"Aa", b"Cc", b"Gg", b"TtUu")):
    for _letter in _letters:
        _CODES[_letter] = _code | (8 if _letter > ord("Z") else 0)


def encode(bases: bytes) -> Codes:
    """Return the codes of ``kmer_kernels``; lower-case bases are marked as in a repeat."""
    return _CODES[np.frombuffer(bases, dtype=np.uint8)]


class HeldSpan(NamedTuple):
    """Held-out bases ``[start, end)`` of a contig, 0-based."""

    contig: str
    start: int
    end: int


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


def is_soft_masked(reader: FastaReader) -> bool:
    """Tell whether lower case marks the repeats of the FASTA: it does unless too few or nearly all bases have it."""
    known = lower = 0
    for piece in _pieces(reader, 0):
        codes = encode(piece)
        known += int(np.count_nonzero(codes & 4 == 0))
        lower += int(np.count_nonzero(codes & 12 == 8))
    return MASKED_SHARES[0] * known <= lower <= MASKED_SHARES[1] * known and lower > 0


@dataclass(frozen=True, slots=True)
class HeldPart:
    """Held-out sequence and its 21-mers.

    ``firsts``: int64, shape (n_spans,): index in ``codes`` of the first base of each span; one N follows each span.
    ``codes``: uint8, shape (n_bases,): codes of ``kmer_kernels``, with repeats marked.
    """

    spans: tuple[HeldSpan, ...]
    firsts: NDArray[np.int64]
    codes: Codes
    marks: NDArray[np.uint32]
    places: NDArray[np.uint32]
    kinds: Codes

    @classmethod
    def read(cls, reader: FastaReader, spans: Iterable[HeldSpan], *, soft_masked: bool) -> HeldPart:
        """Read spans from the FASTA; repeats are lower case if it is ``soft_masked``, else 21-mers with many copies."""
        from genolewm_assets.sources.similarity import kmer_kernels as kernels

        known = tuple(span for span in spans if span.contig in reader.contigs)
        pieces = [encode(reader.read_as_written(*span) + b"N") for span in known]
        firsts = np.cumsum([0, *map(len, pieces)], dtype=np.int64)[:-1]
        codes = np.concatenate([encode(b""), *pieces])
        if not soft_masked:
            codes &= np.uint8(7)
        hashes = np.empty(codes.size, dtype=np.uint64)
        kernels.hash_kmers(codes, hashes)
        slots = 1 << max(4, int(codes.size * 2 - 1).bit_length())
        marks, places = np.zeros(slots, dtype=np.uint32), np.zeros(slots, dtype=np.uint32)
        kinds = np.zeros(slots, dtype=np.uint8)
        kernels.add_kmers(codes, hashes, marks, places, kinds)
        if not soft_masked:
            counts = _count_copies(reader, marks, kinds)
            kernels.mark_repeats(codes, hashes, marks, kinds, counts, MOST_COPIES, REPEAT_BP)
            kinds[:] = kernels.FREE
            kernels.add_kmers(codes, hashes, marks, places, kinds)
        return cls(known, firsts, codes, marks, places, kinds)

    def find_shared(self, codes: Codes, stretch: int) -> tuple[int, int, int, int]:
        """Return the 21-mers that a sequence shares with this part; see ``kmer_kernels.find_shared``."""
        from genolewm_assets.sources.similarity import kmer_kernels as kernels

        hashes = np.empty(codes.size, dtype=np.uint64)
        kernels.hash_kmers(codes, hashes)
        return kernels.find_shared(codes, hashes, self.codes, self.marks, self.places, self.kinds, stretch)

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


def _count_copies(reader: FastaReader, marks: NDArray[np.uint32], kinds: Codes) -> Codes:
    """Return how often the genome holds the 21-mer of each entry of a table, at most 255."""
    from genolewm_assets.sources.similarity import kmer_kernels as kernels

    counts = np.zeros(kinds.size, dtype=np.uint8)
    for piece in _pieces(reader, kernels.K - 1):
        codes = encode(piece)
        hashes = np.empty(codes.size, dtype=np.uint64)
        kernels.hash_kmers(codes, hashes)
        kernels.count_kmers(hashes, marks, kinds, counts)
    return counts


def _pieces(reader: FastaReader, overlap: int) -> Iterator[bytes]:
    """Yield the bases of all contigs in pieces; each but a contig's first repeats ``overlap`` bases."""
    for contig, length in reader.contigs.items():
        for start in range(0, length, _READ_BP):
            yield reader.read_as_written(contig, max(0, start - overlap), min(length, start + _READ_BP))
