"""Search windows for held-out sequence: shared 21-mers choose what minimap2 aligns, and both decide.

A window is similar to held-out sequence if, outside repeats, it aligns with 90 % equal bases over 1,000 bp, or chained
alignments hold half of it, or it shares as many 21-mers within 1,000 bp as 50 equal bases have. By repeats alone a
window is reported, not excluded.

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
from genolewm_assets.sources.similarity.candidates import CANDIDATES, CandidateWriter, read_candidates
from genolewm_assets.sources.similarity.held_part import (
    LETTERS,
    OVERLAP_BP,
    PART_BP,
    HeldPart,
    HeldSpan,
    count_bases,
    divide,
)
from genolewm_assets.sources.similarity.presence import PresenceFilter
from genolewm_assets.sources.similarity.query_batch import QueryBatch, as_arrays
from genolewm_assets.sources.similarity.repeats import Repeats, SoftMask, find_frequent, is_soft_masked

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
            self._choose(parts, repeats, queries, folder, pool)
            for number, spans in enumerate(parts, 1):
                self._progress.advance(number, len(parts), "parts of held-out sequence compared with candidates")
                yield from self._compare(HeldPart.read(self._reader, spans, repeats), folder, pool)

    def _choose(
        self,
        parts: Sequence[Sequence[HeldSpan]],
        repeats: Repeats,
        queries: Iterable[pa.Table],
        folder: Path,
        pool: ThreadPoolExecutor,
    ) -> None:
        """Write the candidates into a file of the folder."""
        present = PresenceFilter(folder / "present", count_bases(parts))
        for spans in parts:
            present.add(HeldPart.read(self._reader, spans, repeats))

        def choose(table: pa.Table) -> tuple[QueryBatch, NDArray[np.bool_], NDArray[np.uint8], Int64s]:
            batch = QueryBatch.of(table)
            return batch, *present.find_dense(batch, least_shared(batch.sizes), STRETCH)

        done = 0
        with CandidateWriter(folder / CANDIDATES) as candidates:
            for _, found in _ahead(pool, choose, (table for table in queries if table.num_rows)):
                candidates.add(*found)
                self._progress.advance(done := done + len(found[0]), None, "windows compared with held-out sequence")

    def _compare(self, part: HeldPart, folder: Path, pool: ThreadPoolExecutor) -> Iterator[Similarity]:
        """Yield the candidates that are similar to a part."""
        shared, sizes, transcribed = _count_shared(part, folder, pool)
        least = least_shared(sizes)
        to_align, reported = shared[:, 0] >= least[:, 0], shared[:, 2] >= least[:, 1]
        for kind in (False, True):
            for row, found in self._align(part, folder, to_align & (transcribed == kind), shared, transcribed=kind):
                reported[row] &= found is None
                if found is not None:
                    yield found
        for row, key, _ in _read_rows(folder, reported):
            yield Similarity(key, SimilarReason.REPEATS, (_around(part, shared[row, 3]),), 0.0, int(shared[row, 2]))

    def _align(
        self, part: HeldPart, folder: Path, chosen: NDArray[np.bool_], shared: NDArray[np.int32], *, transcribed: bool
    ) -> Iterator[tuple[int, Similarity | None]]:
        """Align chosen candidates to a part one by one, as one can take 250 MB; yield number and result."""
        if not chosen.any():
            return
        aligner = HeldAligner(part, folder, transcribed=transcribed)
        for done, (row, key, bases) in enumerate(_read_rows(folder, chosen), 1):
            yield row, _decide(part, key, bases, aligner.align(bases), shared[row])
            self._progress.advance(done, None, "candidates aligned")


def least_shared(sizes: Int64s) -> NDArray[np.float64]:
    """Return the fewest shared 21-mers with which windows are aligned, and reported: float64, shape (n_windows, 2)."""
    least = _least(sizes)
    return np.stack([np.minimum(_TO_ALIGN, least), least * MIN_REPEATED / MIN_SHARED], axis=1)


def _least(sizes: Int64s) -> NDArray[np.float64]:
    return np.maximum(_LEAST_SHARED, MIN_SHARED * np.minimum(1.0, (sizes - _K + 1) / STRETCH))


def _count_shared(
    part: HeldPart, folder: Path, pool: ThreadPoolExecutor
) -> tuple[NDArray[np.int32], Int64s, NDArray[np.bool_]]:
    """Return what the candidates share with a part, see ``kmer_kernels.find_shared``; their sizes; their kinds."""
    from genolewm_assets.sources.similarity import kmer_kernels as kernels

    slots = part.make_table()

    def count(table: pa.Table) -> tuple[NDArray[np.int32], Int64s, NDArray[np.bool_]]:
        batch, (hits, firsts) = QueryBatch.of(table), as_arrays(table["hits"])
        found = np.empty((len(batch), 4), dtype=np.int32)
        kernels.find_shared(batch.data, batch.offsets, LETTERS, hits, firsts, part.codes, slots, STRETCH, found)
        return found, batch.sizes, table["transcribed"].to_numpy()

    found = [
        (np.empty((0, 4), np.int32), np.empty(0, np.int64), np.empty(0, bool)),
        *(result for _, result in _ahead(pool, count, read_candidates(folder / CANDIDATES))),
    ]
    shared, sizes, transcribed = (np.concatenate(each) for each in zip(*found, strict=True))
    return shared, sizes, transcribed


def _read_rows(folder: Path, chosen: NDArray[np.bool_]) -> Iterator[tuple[int, WindowKey, bytes]]:
    """Yield number, key and bases of the chosen candidates."""
    first = 0
    for table in read_candidates(folder / CANDIDATES):
        ours = chosen[first : first + table.num_rows]
        rows = table.filter(pa.array(ours))
        keys = map(WindowKey, *(rows[name].to_pylist() for name in WindowKey._fields))
        yield from zip((first + np.flatnonzero(ours)).tolist(), keys, rows["bases"].to_pylist(), strict=True)
        first += table.num_rows


def _ahead(
    pool: ThreadPoolExecutor, function: Callable[[_Item], _Result], items: Iterable[_Item]
) -> Iterator[tuple[_Item, _Result]]:
    """Yield items and results in order; few items wait at a time, so that not all are in memory."""
    left = iter(items)
    while group := list(islice(left, _BATCHES)):
        yield from zip(group, pool.map(function, group), strict=True)


def _decide(
    part: HeldPart,
    key: WindowKey,
    bases: bytes,
    aligned: tuple[list[HeldPlace], float],
    shared: NDArray[np.int32],
) -> Similarity | None:
    """Return the similarity of a candidate by its alignments and what it shares; None if it is not similar."""
    (places, share), unique, unique_at = aligned, int(shared[0]), int(shared[1])
    enough = unique >= float(_least(np.array([len(bases)]))[0])
    reason = _reason(places, share, len(bases), shares_kmers=enough)
    return None if reason is None else Similarity(key, reason, (*places, _around(part, unique_at)), share, unique)


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
