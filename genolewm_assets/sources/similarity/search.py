"""Search windows for held-out sequence: shared 21-mers choose what minimap2 aligns, and both decide.

A window is similar to held-out sequence if, outside repeats, it aligns with 90 % equal bases over 1,000 bp, or chained
alignments hold half of it, or it shares 31-mers as the audit counts them. By repeats alone a window is reported, not
excluded.

Every window is compared once with a filter over all held-out sequence. Only candidates, which have a stretch with
enough 21-mers of the filter, are compared with each part of it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from genolewm_assets.holdouts import Held, HeldPlace, Similarity, SimilarReason, WindowKey
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.sources.reference import FastaReader
from genolewm_assets.sources.similarity.aligner import HeldAligner
from genolewm_assets.sources.similarity.candidates import Candidates, CandidateWriter
from genolewm_assets.sources.similarity.held_part import (
    LETTERS,
    OVERLAP_BP,
    PART_BP,
    HeldPart,
    HeldSpan,
    Repeats,
    count_bases,
    divide,
)
from genolewm_assets.sources.similarity.presence import PresenceFilter
from genolewm_assets.sources.similarity.query_batch import QueryBatch, as_arrays
from genolewm_assets.sources.similarity.repeats import SoftMask, find_frequent, is_soft_masked

#: An alignment with this share of equal bases over so many bases, both outside repeats, excludes a window.
MIN_IDENTITY, MIN_ALIGNED_BP = 0.90, 1_000
#: Chained alignments of this share of a window exclude it, if this share of it is aligned outside repeats.
MIN_CHAINED, MIN_OUTSIDE = 0.5, 0.1
#: Shared 31-mers outside repeats that exclude a window, as the audit counts them: so many one after another, or such a
#: share of those of a stretch of so many bases, in so many places that do not overlap.
LONGEST_RUN, LEAST_SHARE, STRETCH_BP, LEAST_PLACES = 32, 0.019, 1_000, 2
#: 21-mers of a stretch that 50 equal bases have. Fewest in any window, and those of a copy with 80 % equal bases, with
#: which a window is aligned; in repeats a window is reported with as many as a copy of 90 % has. A window shorter than
#: a stretch needs a share of them.
_ENOUGH, STRETCH, _LEAST_SHARED, _TO_ALIGN, MIN_REPEATED = 30, 980, 4, 6, 100

#: Threads that compare 21-mers, and the Arrow batches that wait for them.
_THREADS, _BATCHES = 2, 4
_K = 21

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
Int64s = NDArray[np.int64]


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

    def __call__(self, held: Held, queries: Iterable[pa.Table]) -> Iterator[Similarity]:
        """Yield the similar windows, those of one part of the held-out sequence after those of another."""
        divided = divide(held, self._part_bp, self._overlap_bp)
        parts = [known for spans in divided if (known := [s for s in spans if s.contig in self._reader.contigs])]
        if not parts:
            return
        with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(_THREADS) as pool:
            folder = Path(name)
            masked = is_soft_masked(self._reader)
            repeats = SoftMask() if masked else find_frequent(self._reader, parts, folder)
            candidates = self._choose(parts, repeats, queries, folder, pool)
            if not len(candidates):
                return
            shape = len(parts), len(candidates), 4
            shared = np.memmap(folder / "shared", np.int32, "w+", shape=shape)
            for number, spans in enumerate(parts):
                self._progress.advance(number, len(parts), "parts of held-out sequence compared with candidates")
                _count_shared(HeldPart.read(self._reader, spans, repeats), candidates, shared[number], pool)
            least = _least_counted(candidates, shared[:, :, 0].max(axis=0))
            for number, spans in enumerate(parts):
                part = HeldPart.read(self._reader, spans, repeats)
                yield from self._compare(part, candidates, np.asarray(shared[number]), least, folder)

    def _choose(
        self,
        parts: Sequence[Sequence[HeldSpan]],
        repeats: Repeats,
        queries: Iterable[pa.Table],
        folder: Path,
        pool: ThreadPoolExecutor,
    ) -> Candidates:
        """Return the windows that may share enough with all held-out sequence."""
        present, path, done = PresenceFilter(folder / "present", count_bases(parts)), folder / "candidates", 0
        for spans in parts:
            present.add(HeldPart.read(self._reader, spans, repeats))

        def choose(table: pa.Table) -> tuple[QueryBatch, NDArray[np.int32], NDArray[np.uint8], Int64s]:
            batch = QueryBatch.of(table)
            return batch, *present.find_dense(batch, STRETCH)

        with CandidateWriter(path) as writer:
            for _, (batch, most, hits, firsts) in _ahead(pool, choose, (table for table in queries if table.num_rows)):
                enough = most >= least_shared(batch.sizes)
                dense = enough[:, 0] | enough[:, 1]
                writer.add(batch, dense, most[:, 0], hits, firsts)
                self._progress.advance(done := done + len(batch), None, "windows compared with held-out sequence")
        return Candidates(path, lambda sizes: least_shared(sizes)[:, 0])

    def _compare(
        self,
        part: HeldPart,
        candidates: Candidates,
        shared: NDArray[np.int32],
        least_counted: NDArray[np.float64],
        folder: Path,
    ) -> Iterator[Similarity]:
        """Yield the candidates that are similar to a part."""
        least, enough = least_shared(candidates.sizes), shared[:, 0] >= least_counted
        to_align, reported = (shared[:, 0] >= least[:, 0]) | enough, shared[:, 2] >= least[:, 1]
        for transcribed in (False, True):
            chosen = to_align & (candidates.transcribed == transcribed)
            for row, key, size, aligned in self._align(part, candidates, folder, chosen, transcribed=transcribed):
                reason = _reason(*aligned, size, shares_kmers=bool(enough[row]))
                if reason is not None:
                    reported[row] = False
                    places = *aligned[0], _around(part, shared[row, 1])
                    yield Similarity(key, reason, places, aligned[1], int(shared[row, 0]))
        for row, key, _ in candidates.rows(reported):
            yield Similarity(key, SimilarReason.REPEATS, (_around(part, shared[row, 3]),), 0.0, int(shared[row, 2]))

    def _align(
        self, part: HeldPart, candidates: Candidates, folder: Path, chosen: NDArray[np.bool_], *, transcribed: bool
    ) -> Iterator[tuple[int, WindowKey, int, tuple[list[HeldPlace], float]]]:
        """Yield number, key and size of chosen candidates with their alignments, one by one, as one can take 250 MB."""
        if not chosen.any():
            return
        aligner = HeldAligner(part, folder, transcribed=transcribed)
        for done, (row, key, bases) in enumerate(candidates.rows(chosen), 1):
            yield row, key, len(bases), aligner.align(bases)
            self._progress.advance(done, None, "candidates aligned")


def least_shared(sizes: Int64s) -> NDArray[np.float64]:
    """Return the fewest shared 21-mers with which windows are aligned, and reported: float64, shape (n_windows, 2)."""
    least = _least_of(sizes)
    return np.stack([np.minimum(_TO_ALIGN, least), least * MIN_REPEATED / _ENOUGH], axis=1)


def _least_of(sizes: Int64s) -> NDArray[np.float64]:
    least: NDArray[np.float64] = np.maximum(_LEAST_SHARED, _ENOUGH * np.minimum(1.0, (sizes - _K + 1) / STRETCH))
    return least


def _count_shared(part: HeldPart, candidates: Candidates, shared: NDArray[np.int32], pool: ThreadPoolExecutor) -> None:
    """Write what the candidates share with a part, see ``kmer_kernels.find_shared``; mark the shared 31-mers."""
    from genolewm_assets.sources.similarity import kmer_kernels as kernels

    slots = part.make_table()

    def count(numbered: tuple[slice, pa.Table]) -> NDArray[np.int32]:
        at, table = numbered
        batch, (hits, firsts) = QueryBatch.of(table), as_arrays(table["hits"])
        found, long = np.empty((len(batch), 4), dtype=np.int32), (candidates.long, candidates.long_at[at])
        kernels.find_shared(batch.data, batch.offsets, LETTERS, hits, firsts, part.codes, slots, STRETCH, found, *long)
        return found

    for (at, _), found in _ahead(pool, count, candidates.numbered()):
        shared[at] = found


def _least_counted(candidates: Candidates, most: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return the fewest 21-mers shared with a part with which each candidate is similar to it by shared 31-mers.

    Infinite if the audit counts too few 31-mers of all parts together; else no more than the candidate shares with the
    part, of 21-mers outside repeats, with which it shares ``most``.
    """
    from genolewm_assets.sources.similarity.kmer_kernels import find_counted

    counted, rule = np.zeros(len(candidates), dtype=bool), np.array([LONGEST_RUN, STRETCH_BP, LEAST_PLACES])
    for at, table in candidates.numbered():
        batch, long = QueryBatch.of(table), (candidates.long, candidates.long_at[at])
        find_counted(batch.data, batch.offsets, LETTERS, *long, rule, LEAST_SHARE, counted[at])
    return np.where(counted, np.minimum(_least_of(candidates.sizes), np.maximum(1, most)), np.inf)


def _ahead(
    pool: ThreadPoolExecutor, function: Callable[[_Item], _Result], items: Iterable[_Item]
) -> Iterator[tuple[_Item, _Result]]:
    """Yield items and results in order; few items wait at a time, so that not all are in memory."""
    left = iter(items)
    while group := list(islice(left, _BATCHES)):
        yield from zip(group, pool.map(function, group), strict=True)


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
