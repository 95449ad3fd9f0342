"""Align many sequences to a genome whose minimap2 index would take too much memory: one part of the genome at a time.

Not here: which alignments are accepted (:mod:`~genolewm_assets.sources.corpus.aligner`).
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.genome import encode_kmers, encode_sequence, reverse_complement
from genolewm_assets.windows.corpus import WindowAligner

#: Bases of a part: its minimap2 index takes up to 17 bytes a base while it is made.
PART_BP = 30_000_000
#: Bases that two parts of one contig share, so that a gene at their border is whole in one of them.
OVERLAP_BP = 2_000_000
#: A window has no unique place if another place scores at least this share of the best score. minimap2 gives such a
#: window the mapping quality 0, if both places are in one index.
RIVAL_SHARE = 0.9975
#: Cost of an alignment column that does not match, relative to one that does.
_MISMATCH_COST = 4
_LINE_BP = 1 << 20

_HIT = np.dtype(
    [
        ("contig", "i4"),
        ("start", "i8"),
        ("end", "i8"),
        ("reverse", "?"),
        ("spliced", "?"),
        ("unique", "?"),
        ("matches", "i4"),
        ("columns", "i4"),
        ("aligned", "i4"),
        ("rival", "f4"),
    ]
)


def needs_parts(index: Path) -> bool:
    """Tell from the ``.fai`` of a FASTA whether it may have to be divided: with N, it has more bases than a part."""
    return sum(int(line.split("\t")[1]) for line in index.read_text().splitlines()) > PART_BP


@runtime_checkable
class BatchAligner(Protocol):
    """Aligner that must know all sequences of a build before it answers; see ``MappyAligner.prepare``."""

    def prepare(self, ask: Callable[[WindowAligner], None], folder: Path) -> WindowAligner:
        """Return an aligner that answers what ``ask`` asks, in the same order; it may be this one."""


class Stretch(NamedTuple):
    """Part of a contig: its name in the FASTA, 0-based half-open."""

    contig: str
    start: int
    end: int


class Hit(NamedTuple):
    """Alignment of a whole sequence: its 0-based half-open place, by the name in the FASTA, and counts of bases."""

    contig: str
    start: int
    end: int
    reverse: bool
    spliced: bool
    unique: bool
    matches: int
    columns: int
    aligned: int

    @property
    def score(self) -> int:
        """Matches less the cost of the other columns."""
        return self.matches - _MISMATCH_COST * (self.columns - self.matches)

    def is_same_place(self, other: Hit) -> bool:
        """Tell whether both are on one strand of a contig and overlap."""
        on_one = (self.contig, self.reverse) == (other.contig, other.reverse)
        return on_one and self.start < other.end and other.start < self.end


def divide(
    lengths: Mapping[str, int], *, part_bp: int = PART_BP, overlap_bp: int = OVERLAP_BP
) -> list[tuple[Stretch, ...]]:
    """Divide contigs into parts of at most ``part_bp`` bases; a longer contig is cut into stretches with an overlap."""
    parts: list[list[Stretch]] = []
    room = 0
    for contig, length in lengths.items():
        pieces = max(1, -(-(length - overlap_bp) // (part_bp - overlap_bp)))
        step = -(-max(0, length - overlap_bp) // pieces)
        for start in range(0, step * pieces, step) if pieces > 1 else (0,):
            stretch = Stretch(contig, start, min(length, start + step + overlap_bp) if pieces > 1 else length)
            if stretch.end - start > room:
                parts.append([])
                room = part_bp
            parts[-1].append(stretch)
            room -= stretch.end - start
    return [tuple(part) for part in parts]


def write_part(part: Sequence[Stretch], read: Callable[[Stretch], str], path: Path, screen: KmerScreen) -> None:
    """Write the bases of a part as FASTA, its records named by their number in the part, and add them to a screen."""
    with path.open("w") as out:
        for number, stretch in enumerate(part):
            out.write(f">{number}\n")
            for start in range(stretch.start, stretch.end, _LINE_BP):
                bases = read(stretch._replace(start=start, end=min(start + _LINE_BP, stretch.end)))
                out.write(f"{bases}\n")
                screen.add(bases.encode("ascii"))


@dataclass(frozen=True, slots=True)
class SequenceFile:
    """Sequences that wait on disk: gzipped lines, read in their order as often as needed."""

    path: Path
    count: int

    def __iter__(self) -> Iterator[bytes]:
        with gzip.open(self.path, "rb") as lines:
            for line in lines:
                yield line[:-1]


class BestHits:
    """Best hit of each sequence over all parts; 50 bytes per sequence."""

    def __init__(self, count: int) -> None:
        self._rows: NDArray[np.void] = np.zeros(count, dtype=_HIT)
        self._names: dict[str, int] = {}

    def add(self, index: int, hit: Hit) -> None:
        """Keep a hit if it is better than that of an earlier part; the other one becomes its rival."""
        best, rival = self._hit(index), float(self._rows[index]["rival"])
        if best is None:
            self._put(index, hit, rival)
            return
        better, other = (hit, best) if (hit.matches, -hit.start) > (best.matches, -best.start) else (best, hit)
        if not better.is_same_place(other):
            rival = max(rival, other.score)
        self._put(index, better, rival)

    def __iter__(self) -> Iterator[Hit | None]:
        """Yield the hit of each sequence; None if there is none, or if its place is not unique."""
        for index in range(len(self._rows)):
            hit = self._hit(index)
            rivalled = hit is not None and self._rows[index]["rival"] >= RIVAL_SHARE * hit.score
            yield None if hit is None or not hit.unique or rivalled else hit

    def _put(self, index: int, hit: Hit, rival: float) -> None:
        self._rows[index] = (self._names.setdefault(hit.contig, len(self._names)), *hit[1:], rival)

    def _hit(self, index: int) -> Hit | None:
        row = self._rows[index].tolist()
        return None if not row[7] else Hit(list(self._names)[row[0]], *row[1:-1])


def align_in_parts(
    sequences: SequenceFile,
    parts: Sequence[tuple[Stretch, ...]],
    align: Callable[[tuple[Stretch, ...], Iterable[bytes]], Iterable[Hit | None]],
) -> Iterator[Hit | None]:
    """Align all sequences to each part in turn, and yield the best hit of each over all parts."""
    best = BestHits(sequences.count)
    for part in parts:
        for index, hit in enumerate(align(part, sequences)):
            if hit is not None:
                best.add(index, hit)
    yield from best


_LEFT, _RIGHT = 8, 7
#: A 15-mer has 30 bits. It is sampled if its hash of 30 bits is below 2**26, one in 16; the hash is its place.
_RANK_BITS, _TABLE_BITS = 30, 26
#: Odd, so that no two 15-mers have one hash.
_FACTOR = np.uint32(0x9E3779B1)
#: Share of the sampled 15-mers that a sequence has in common with a part that holds it. An alignment of 90 % of the
#: sequence with 95 % matching columns leaves at least 22 % of them whole; chance gives less than 10 %.
_MIN_SHARE = 0.14


class KmerScreen:
    """Sampled 15-mers of both strands of a part of a genome; 64 MiB."""

    def __init__(self) -> None:
        self._held = np.zeros(1 << _TABLE_BITS, dtype=np.bool_)

    def add(self, bases: bytes) -> None:
        """Add a piece of the part, upper-case bases."""
        for strand in (bases, reverse_complement(bases)):
            self._held[_sample(strand)] = True

    def may_hold(self, sequence: bytes) -> bool:
        """Tell whether the part may hold most of a sequence, on either strand."""
        sampled = self._held[_sample(sequence)]
        return int(np.count_nonzero(sampled)) >= _MIN_SHARE * len(sampled)


def _sample(bases: bytes) -> NDArray[np.uint32]:
    """Return the places in the table of the sampled 15-mers: shape (n_sampled,)."""
    codes = encode_sequence(bases)
    left, right = encode_kmers(codes, k=_LEFT), encode_kmers(codes[_LEFT:], k=_RIGHT)
    left = left[: len(right)]
    known = (left >= 0) & (right >= 0)
    ranks = (left[known].astype(np.uint32) << np.uint32(2 * _RIGHT)) | right[known].astype(np.uint32)
    hashes = (ranks * _FACTOR) & np.uint32((1 << _RANK_BITS) - 1)
    return hashes[hashes < (1 << _TABLE_BITS)]
