"""Search windows for held-out sequence: shared 21-mers choose what minimap2 aligns, and both decide.

A window is similar to held-out sequence if, outside repeats, it aligns with 90 % equal bases over 1,000 bp, or chained
alignments hold half of it, or it shares as many 21-mers within 1,000 bp as 50 equal bases have. By repeats alone a
window is reported, not excluded.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Lock

import mappy
import numpy as np

from genolewm_assets.errors import FastaError
from genolewm_assets.holdouts import Held, HeldPlace, Query, Similarity, SimilarReason
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.sources.reference import FastaReader
from genolewm_assets.sources.similarity.held_part import OVERLAP_BP, PART_BP, HeldPart, divide, encode, is_soft_masked

#: An alignment with this share of equal bases over so many bases, both outside repeats, excludes a window.
MIN_IDENTITY, MIN_ALIGNED_BP = 0.90, 1_000
#: Chained alignments of this share of a window exclude it, if this share of it is aligned outside repeats.
MIN_CHAINED, MIN_OUTSIDE = 0.5, 0.1
#: 21-mers of a stretch that exclude a window of 1,000 bp or more; of a shorter one in proportion, but at least 4.
MIN_SHARED, STRETCH, _LEAST_SHARED = 30, 980, 4
#: The same for 21-mers in repeats, with which a window is reported: a copy of 90 % equal bases has as many.
MIN_REPEATED = 100
#: Shared 21-mers of a stretch with which a window is aligned: its copy with 80 % equal bases has more.
_TO_ALIGN = 6

_ROWS, _THREADS = 64, 2
_K = 21


class SequenceSearch:
    """Searches windows for held-out sequence; a :class:`~genolewm_assets.holdouts.SimilaritySearch`.

    Parameters
    ----------
    progress
        Receives how many windows have been compared.
    part_bp, overlap_bp
        Held-out bases that are compared at once, and that two parts of one interval share.

    Raises
    ------
    FastaError
        If the FASTA cannot be read, or minimap2 cannot index a part of it.
    """

    def __init__(
        self,
        reader: FastaReader,
        *,
        progress: Progress = NO_PROGRESS,
        part_bp: int = PART_BP,
        overlap_bp: int = OVERLAP_BP,
    ) -> None:
        self._reader, self._progress = reader, progress
        self._part_bp, self._overlap_bp = part_bp, overlap_bp

    def __call__(self, held: Held, queries: Callable[[], Iterable[Query]]) -> Iterator[Similarity]:
        """Yield the similar windows, those of one part of the held-out sequence after those of another."""
        soft_masked = is_soft_masked(self._reader)
        parts = list(divide(held, self._part_bp, self._overlap_bp))
        for number, spans in enumerate(parts, 1):
            part = HeldPart.read(self._reader, spans, soft_masked=soft_masked)
            if part.spans:
                yield from self._search_part(part, queries(), f"windows compared, part {number} of {len(parts)}")

    def _search_part(self, part: HeldPart, queries: Iterable[Query], doing: str) -> Iterator[Similarity]:
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(_THREADS) as pool:
            compare = partial(_compare_all, part, HeldAligner(part, Path(folder)))
            left, done = iter(queries), 0
            # Few batches wait at a time, so that not all windows are in memory.
            while batches := [batch for _ in range(4 * _THREADS) if (batch := tuple(islice(left, _ROWS)))]:
                for found in pool.map(compare, batches):
                    yield from found
                done += sum(map(len, batches))
                self._progress.advance(done, None, doing)


def _compare_all(part: HeldPart, aligner: HeldAligner, queries: Sequence[Query]) -> list[Similarity]:
    found = (compare(part, aligner, query) for query in queries)
    return [similarity for similarity in found if similarity is not None]


def compare(part: HeldPart, aligner: HeldAligner, query: Query) -> Similarity | None:
    """Compare one window with a part of the held-out sequence; None if it is not similar."""
    codes = encode(query.bases)
    unique, unique_at, any_kind, any_at = part.find_shared(codes, STRETCH)
    least = max(_LEAST_SHARED, MIN_SHARED * min(1.0, (codes.size - _K + 1) / STRETCH))
    if unique >= min(_TO_ALIGN, least):
        places, share = aligner.align(query.bases, transcribed=query.transcribed)
        reason = _reason(places, share, len(query.bases), shares_kmers=unique >= least)
        if reason is not None:
            return Similarity(query.key, reason, (*places, _around(part, unique_at)), share, unique)
    if any_kind >= least * MIN_REPEATED / MIN_SHARED:
        return Similarity(query.key, SimilarReason.REPEATS, (_around(part, any_at),), 0.0, any_kind)
    return None


def _reason(places: Sequence[HeldPlace], share: float, size: int, *, shares_kmers: bool) -> SimilarReason | None:
    if any(place.aligned_bp >= MIN_ALIGNED_BP and (place.identity or 0) >= MIN_IDENTITY for place in places):
        return SimilarReason.ALIGNED
    if share >= MIN_CHAINED and sum(place.aligned_bp for place in places) >= MIN_OUTSIDE * size:
        return SimilarReason.CHAINED
    return SimilarReason.SHARED_KMERS if shares_kmers else None


def _around(part: HeldPart, at: int) -> HeldPlace:
    """Return the place of a shared 21-mer, which is not aligned."""
    span, start = part.span_at(at)
    return HeldPlace(span.contig, start, start + _K, "+", None, 0)


#: minimap2's flag MM_F_EQX: equal and unequal bases have operations of their own in the CIGAR.
_EQX = 0x4000000
#: CIGAR operations, as numbers of BAM (SAM specification 1.6, §4.2).
_INSERTION, _DELETION, _INTRON, _EQUAL, _UNEQUAL = 1, 2, 3, 7, 8
#: Presets of minimap2 for genomic sequence and, by whether a sequence is transcribed, for transcripts.
_PRESETS = {False: "asm20", True: "splice"}
_IN_REPEAT = 8


class HeldAligner:
    """Aligns sequences to a part of the held-out sequence."""

    def __init__(self, part: HeldPart, folder: Path) -> None:
        self._part = part
        self._fasta = folder / "held_out.fa"
        part.write(self._fasta)
        self._aligners: dict[bool, mappy.Aligner] = {}
        self._indexing = Lock()

    def align(self, bases: bytes, *, transcribed: bool) -> tuple[list[HeldPlace], float]:
        """Return the places of all alignments, most equal bases outside repeats first, and the aligned share."""
        found: list[tuple[float, HeldPlace]] = []
        covered = np.zeros(len(bases), dtype=bool)
        for hit in self._index(transcribed).map(bases.decode("ascii")):
            covered[hit.q_st : hit.q_en] = True
            equal, columns = self._count(hit)
            span = self._part.spans[int(hit.ctg)]
            place = span.contig, span.start + hit.r_st, span.start + hit.r_en, "-" if hit.strand < 0 else "+"
            found.append((equal, HeldPlace(*place, equal / columns if columns else 0.0, columns)))
        found.sort(key=lambda scored: (-scored[0], scored[1]))
        return [place for _, place in found], float(covered.mean()) if covered.size else 0.0

    def _index(self, transcribed: bool) -> mappy.Aligner:
        """Return the index for a kind of sequence; it is made when the first such sequence is aligned."""
        with self._indexing:
            if transcribed not in self._aligners:
                preset = _PRESETS[transcribed]
                aligner = mappy.Aligner(str(self._fasta), preset=preset, n_threads=1, extra_flags=_EQX)
                if not aligner:
                    raise FastaError("held-out sequence", "minimap2 cannot index it", remedy="Rebuild reference/genome")
                self._aligners[transcribed] = aligner
            return self._aligners[transcribed]

    def _count(self, hit: mappy.Alignment) -> tuple[int, int]:
        """Return equal bases and all columns of an alignment outside repeats; a gap is one column."""
        first = int(self._part.firsts[int(hit.ctg)])
        outside = self._part.codes[first + hit.r_st : first + hit.r_en] & _IN_REPEAT == 0
        before = np.concatenate([[0], np.cumsum(outside)])
        at = equal = columns = 0
        for length, operation in hit.cigar:
            if operation in (_EQUAL, _UNEQUAL):
                n = int(before[at + length] - before[at])
                equal += n if operation == _EQUAL else 0
                columns += n
            elif operation in (_INSERTION, _DELETION):
                columns += int(outside[min(at, outside.size - 1)])
            at += length if operation in (_EQUAL, _UNEQUAL, _DELETION, _INTRON) else 0
        return equal, columns
