"""Parts of a genome whose minimap2 index would take too much memory, and the best of the hits that parts give.

Not here: which alignments are accepted (:mod:`~genolewm_assets.sources.corpus.aligner`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.sources.corpus.genome_slices import Stretch
from genolewm_assets.sources.corpus.packed import temporary_file

#: Bases of a part: its minimap2 index takes up to 17 bytes a base while it is made.
PART_BP = 30_000_000
#: Bases that two parts of one contig share, so that a gene at their border is whole in one of them.
OVERLAP_BP = 2_000_000
#: A window has no unique place if another place scores at least this share of the best score. minimap2 gives such a
#: window the mapping quality 0, if both places are in one index.
RIVAL_SHARE = 0.9975
#: Cost of an alignment column that does not match, relative to one that does.
_MISMATCH_COST = 4

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
        ("size", "i4"),
        ("rival", "f4"),
    ]
)


def needs_parts(index: Path) -> bool:
    """Tell from the ``.fai`` of a FASTA whether it may have to be divided: with N, it has more bases than a part."""
    return sum(int(line.split("\t")[1]) for line in index.read_text().splitlines()) > PART_BP


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
    size: int

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


class BestHits:
    """Best hit of each of ``count`` questions over all parts, in a temporary file of a folder; 43 bytes a question."""

    def __init__(self, count: int, folder: Path) -> None:
        file = temporary_file(self, folder)
        file.truncate(count * _HIT.itemsize)
        self._rows: NDArray[np.void] = np.memmap(file, dtype=_HIT, mode="r+", shape=(count,))
        self._names: list[str] = []

    def add(self, question: int, hit: Hit) -> None:
        """Keep a hit if it is better than that of an earlier part; the other one becomes its rival."""
        best, rival = self._hit(question), float(self._rows[question]["rival"])
        if best is None:
            self._put(question, hit, rival)
            return
        better, other = (hit, best) if (hit.matches, -hit.start) > (best.matches, -best.start) else (best, hit)
        # Of a place that two parts share, the second may hold another one that is as good.
        if not (other.unique and better.is_same_place(other)):
            rival = max(rival, other.score)
        self._put(question, better, rival)

    def find(self, question: int) -> Hit | None:
        """Return the hit of a question; None if there is none, or if its place is not unique."""
        hit = self._hit(question)
        rivalled = hit is not None and self._rows[question]["rival"] >= RIVAL_SHARE * hit.score
        return None if hit is None or not hit.unique or rivalled else hit

    def _put(self, question: int, hit: Hit, rival: float) -> None:
        if hit.contig not in self._names:
            self._names.append(hit.contig)
        self._rows[question] = (self._names.index(hit.contig), *hit[1:], rival)

    def _hit(self, question: int) -> Hit | None:
        row = self._rows[question].tolist()
        return None if not row[7] else Hit(self._names[row[0]], *row[1:-1])
