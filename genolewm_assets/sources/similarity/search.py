"""Search windows for held-out sequence: shared 21-mers choose what minimap2 aligns; ``verdicts`` has the rules.

A sample of the 21-mers of every window is looked up once in a filter over all held-out sequence. Only candidates, which
have enough of them in a stretch, or a 31-mer, are compared with each interval. What a window shares with an interval
depends on these two alone, so that a later release takes it over where both are the same. Of the windows that an
earlier release compared it looks up those that share something with an interval that changed, or have an added 21-mer.
"""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TypeVar

import mappy
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from genolewm_assets.errors import FastaError
from genolewm_assets.holdouts import HOLDOUT_COMPARED, Compared, Held, HeldPlace, Kept, PieceQueries, WindowKey
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.sources.reference import FastaReader
from genolewm_assets.sources.similarity.added import MOST_ADDED_BP, AddedKmers, EarlierFinds, list_added
from genolewm_assets.sources.similarity.candidates import Candidates, CandidateWriter, QueryBatch, as_arrays
from genolewm_assets.sources.similarity.held_part import (
    LETTERS,
    OVERLAP_BP,
    PART_BP,
    Codes,
    HeldPart,
    HeldSpan,
    PresenceFilter,
    count_bases,
    divide,
    pack,
)
from genolewm_assets.sources.similarity.repeats import find_frequent, is_soft_masked, soft_mask
from genolewm_assets.sources.similarity.verdicts import (
    STRETCH,
    TO_ALIGN,
    aligns_as_similar,
    least_repeated,
    list_similar_pairs,
)
from genolewm_assets.store.tables import give_memory_back
from genolewm_assets.variants import as_bools

#: minimap2's flag MM_F_EQX: equal and unequal bases have operations of their own in the CIGAR.
_EQX = 0x4000000
#: CIGAR operations, as numbers of BAM (SAM specification 1.6, §4.2).
_INSERTION, _DELETION, _INTRON, _EQUAL, _UNEQUAL = 1, 2, 3, 7, 8
#: Presets of minimap2 for genomic sequence and, by whether a sequence is transcribed, for transcripts.
_PRESETS = {False: "asm20", True: "splice"}
_IN_REPEAT = 8
_LETTERS = np.frombuffer(b"ACGTN", dtype=np.uint8)

#: What the result depends on beside this code.
ALIGNER = f"mappy {mappy.__version__}"

#: Threads that compare 21-mers, the batches that wait for them, and the windows of one.
_THREADS, _BATCHES, _ROWS = 2, 4, 512
#: Windows that are similar by repeats alone are counted among the first so many of every so many of a piece.
_COUNTED, _OF = 256, 8_192
_K = 21
_KEY = list(WindowKey._fields)

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]


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

    def __call__(self, held: Held, queries: Iterable[PieceQueries], kept: Kept | None = None) -> Compared:
        """Compare windows with held-out sequence, but for pieces and intervals of which the result is kept."""
        spans, before = self._divide(held), set(self._divide(kept.held)) if kept else set()
        parts, changed = pack(spans, self._part_bp), [span for span in spans if span not in before]
        added = list_added(changed, before)
        if count_bases([added]) > MOST_ADDED_BP:
            kept = None
        with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(_THREADS) as pool:
            folder = Path(name)
            masked = is_soft_masked(self._reader)
            repeats = soft_mask if masked else find_frequent(self._reader, parts, folder)
            earlier = None
            if kept:
                earlier = EarlierFinds(kept, spans, changed, AddedKmers.read(self._reader, added, repeats))
            present = PresenceFilter(folder / "present", count_bases(parts))
            for each in parts:
                present.add(HeldPart.read(self._reader, each, repeats))
            candidates, counts = self._choose(present, queries, earlier, folder / "candidates", pool)
            is_known = _is_known(candidates, kept)
            found = earlier.taken if earlier else [HOLDOUT_COMPARED.empty()]
            left = pack(changed, self._part_bp)
            for rows, some in ((np.flatnonzero(~is_known), parts), (np.flatnonzero(is_known), left)):
                for number, each in enumerate(some if rows.size else ()):
                    self._progress.advance(number, len(some), "parts of held-out sequence compared with candidates")
                    part = HeldPart.read(self._reader, each, repeats)
                    found.append(self._compare(part, candidates, rows, folder, pool))
                    give_memory_back()
            order = [(name, "ascending") for name in HOLDOUT_COMPARED.key]
            compared = pa.concat_tables(found).sort_by(order).combine_chunks()
            similar = list_similar_pairs(compared)
            repeated = candidates.keys(np.flatnonzero(candidates.repeated), _KEY)
            counts.add("repeated", repeated.join(similar.select(_KEY), _KEY, join_type="left anti")["origin"])
        return Compared(compared, similar, counts.estimate())

    def _divide(self, held: Held) -> list[HeldSpan]:
        spans = divide(held, self._part_bp, self._overlap_bp)
        return [span for span in spans if span.contig in self._reader.contigs]

    def _choose(
        self,
        present: PresenceFilter,
        queries: Iterable[PieceQueries],
        earlier: EarlierFinds | None,
        path: Path,
        pool: ThreadPoolExecutor,
    ) -> tuple[Candidates, _RepeatCounts]:
        """Return the windows that may share enough with held-out sequence, and count those that do so in repeats."""
        counts, done = _RepeatCounts(), 0

        def look_up() -> Iterator[tuple[PieceQueries, Int64s, Bools]]:
            for piece in queries:
                counted = piece.rows % _OF < _COUNTED
                counts.add("compared", piece.keys["origin"])
                counts.add("counted", piece.keys["origin"].filter(pa.array(counted)))
                again = earlier.take_over(piece) if earlier else np.ones(counted.size, np.bool_)
                at = np.flatnonzero(counted | again)
                for first in range(0, len(at), _ROWS):
                    rows = at[first : first + _ROWS]
                    yield piece, rows, counted[rows]

        def choose(of: tuple[PieceQueries, Int64s, Bools]) -> tuple[QueryBatch, Bools, Bools, Codes, Int64s]:
            batch = QueryBatch.of(of[0].read(of[1]))
            most, hits, firsts = present.screen(batch, STRETCH, TO_ALIGN)
            chosen = (most[:, 0] >= TO_ALIGN) | (most[:, 2] > 0)
            return batch, chosen, of[2] & (most[:, 1] >= least_repeated(batch.sizes)), hits, firsts

        with CandidateWriter(path) as writer:
            for _, (batch, chosen, repeated, hits, firsts) in _ahead(pool, choose, look_up()):
                writer.add(batch, chosen, repeated, hits, firsts)
                counts.add("repeated", batch.table["origin"].filter(pa.array(repeated & ~chosen)))
                self._progress.advance(done := done + len(batch), None, "windows compared with held-out sequence")
        return Candidates(path), counts

    def _compare(
        self, part: HeldPart, candidates: Candidates, rows: Int64s, folder: Path, pool: ThreadPoolExecutor
    ) -> pa.Table:
        """Return what candidates with numbers ``rows`` share with the spans of a part, schema ``HOLDOUT_COMPARED``."""
        pairs, runs_of = _find_pairs(part, candidates, rows, pool)
        aligned = self._align(part, candidates, pairs[pairs[:, 4] >= TO_ALIGN], folder)
        found: list[tuple[int, int, HeldPlace, float, int, int, list[int]]] = []
        for (row, number, shared, at, _), runs in zip(pairs.tolist(), runs_of, strict=True):
            places, share = aligned.get((row, number), ((), 0.0))
            if runs or not aligns_as_similar(places, share, int(candidates.sizes[row])):
                # The place of a shared 21-mer, which is not aligned. By it a later release knows what to compare again.
                start = part.spans[number].start + at - int(part.firsts[number])
                shown = places if runs else ()
                places = (*shown, HeldPlace(part.spans[number].contig, start, start + _K, "+", None, 0))
            for rank, place in enumerate(places):
                found.append((row, number, place, share, shared, rank, [] if rank else runs))
        return _as_table(part, candidates, found)

    def _align(
        self, part: HeldPart, candidates: Candidates, pairs: Int64s, folder: Path
    ) -> dict[tuple[int, int], tuple[tuple[HeldPlace, ...], float]]:
        """Return the places of alignments, and the aligned share, by candidate and span of a part."""
        found: dict[tuple[int, int], tuple[tuple[HeldPlace, ...], float]] = {}
        for number, span in enumerate(part.spans):
            ours = pairs[pairs[:, 1] == number, 0]
            for transcribed in (False, True):
                rows = ours[candidates.transcribed[ours] == transcribed]
                if rows.size:
                    aligner = HeldAligner(span, part.codes_of(number), folder, transcribed=transcribed)
                    for row, bases in zip(rows.tolist(), candidates.bases(rows), strict=True):
                        found[row, number] = aligner.align(bases)
                        self._progress.advance(len(found), len(pairs), "pairs of candidate and interval aligned")
        return found


class HeldAligner:
    """Aligns sequences, transcribed ones or others, to a span of the held-out sequence with given codes."""

    def __init__(self, span: HeldSpan, codes: Codes, folder: Path, *, transcribed: bool) -> None:
        self._span, fasta = span, folder / "held_out.fa"
        self._outside = codes & _IN_REPEAT == 0
        fasta.write_bytes(b">held\n" + _LETTERS[codes & 7].tobytes() + b"\n")
        # The C library keeps the memory of the index before this one, in pieces too small for the next.
        give_memory_back()
        self._aligner = mappy.Aligner(str(fasta), preset=_PRESETS[transcribed], n_threads=1, extra_flags=_EQX)
        if not self._aligner:
            raise FastaError("held-out sequence", "minimap2 cannot index it", remedy="Rebuild reference/genome")

    def align(self, bases: bytes) -> tuple[tuple[HeldPlace, ...], float]:
        """Return the places of all alignments, most equal bases outside repeats first, and the aligned share."""
        found: list[tuple[float, HeldPlace]] = []
        covered = np.zeros(len(bases), dtype=bool)
        for hit in self._aligner.map(bases.decode("ascii")):
            covered[hit.q_st : hit.q_en] = True
            equal, columns = self._count(hit)
            start, end = (self._span.start + at for at in (hit.r_st, hit.r_en))
            place = self._span.contig, start, end, "-" if hit.strand < 0 else "+"
            found.append((equal, HeldPlace(*place, equal / columns if columns else 0.0, columns)))
        found.sort(key=lambda scored: (-scored[0], scored[1]))
        return tuple(place for _, place in found), float(covered.mean()) if covered.size else 0.0

    def _count(self, hit: mappy.Alignment) -> tuple[int, int]:
        """Return equal bases and all columns of an alignment outside repeats; a gap is one column."""
        outside = self._outside[hit.r_st : hit.r_en]
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


class _RepeatCounts(defaultdict[str, Counter[str]]):
    """Windows by origin: those compared, those of them that are counted, and of these the similar by repeats alone."""

    def __init__(self) -> None:
        super().__init__(Counter)

    def add(self, what: str, origins: pa.ChunkedArray) -> None:
        """Add windows, by their origins."""
        self[what].update({row["values"]: row["counts"] for row in pc.value_counts(origins).to_pylist()})

    def estimate(self) -> Counter[str]:
        """Return how many of all windows are similar by repeats alone, by origin."""
        shares = ((of, n, self["counted"][of]) for of, n in self["repeated"].items())
        return Counter({of: n * self["compared"][of] // counted for of, n, counted in shares})


def _is_known(candidates: Candidates, kept: Kept | None) -> Bools:
    """Tell which candidates are of pieces of which the result is kept."""
    if kept is None:
        return np.zeros(len(candidates), dtype=bool)
    pieces = candidates.keys(np.arange(len(candidates)), ["piece"])["piece"]
    return as_bools(pc.is_in(pieces, value_set=pa.array(sorted(kept.pieces), pa.string())))


def _find_pairs(
    part: HeldPart, candidates: Candidates, rows: Int64s, pool: ThreadPoolExecutor
) -> tuple[Int64s, list[list[int]]]:
    """Find what candidates with numbers ``rows`` share with each span of a part: pairs by span and window, and runs.

    Pairs: int64, shape (n_pairs, 5): the columns of ``kmer_kernels.find_pairs`` but the last.
    """
    from genolewm_assets.sources.similarity import kmer_kernels as kernels

    slots = part.make_table()

    def find(numbered: tuple[Int64s, pa.Table]) -> tuple[Int64s, list[list[int]]]:
        batch, hits = QueryBatch.of(numbered[1]), as_arrays(numbered[1]["hits"])
        given = batch.data, batch.offsets, LETTERS, *hits, part.codes, part.firsts, slots, STRETCH
        pairs, runs = kernels.find_pairs(*given, TO_ALIGN)
        pairs[:, 0] = numbered[0][pairs[:, 0]]
        return pairs[:, :5], [each.ravel().tolist() for each in np.split(runs, pairs[:-1, 5])] if len(pairs) else []

    found = [of for _, of in _ahead(pool, find, candidates.tables(rows))]
    pairs, runs = np.concatenate([each for each, _ in found]), [one for _, each in found for one in each]
    order = np.lexsort((pairs[:, 0], pairs[:, 1]))
    return pairs[order], [runs[at] for at in order.tolist()]


def _as_table(
    part: HeldPart, candidates: Candidates, found: Sequence[tuple[int, int, HeldPlace, float, int, int, list[int]]]
) -> pa.Table:
    """Return rows of (candidate, span, place, share, shared 21-mers, number, runs), schema ``HOLDOUT_COMPARED``."""
    rows, at = np.unique(np.array([each[0] for each in found], np.int64), return_inverse=True)
    windows = candidates.keys(rows, [*_KEY, "piece"]).take(pa.array(at))
    columns = dict(zip(windows.column_names, windows.columns, strict=True))
    columns["window_bp"] = pa.array(candidates.sizes[rows][at], pa.int32())
    places = [each[2] for each in found]
    for name, field in (("held_contig", "contig"), ("held_start", "start"), ("held_end", "end")):
        columns[name] = pa.array([getattr(place, field) for place in places])
    for name in ("strand", "identity", "aligned_bp"):
        columns[name] = pa.array([getattr(place, name) for place in places])
    for column, name in enumerate(("share", "shared_kmers", "number", "runs"), 3):
        columns[name] = pa.array([each[column] for each in found], HOLDOUT_COMPARED.arrow.field(name).type)
    columns["unit_start"] = pa.array([part.spans[each[1]].start for each in found])
    columns["unit_end"] = pa.array([part.spans[each[1]].end for each in found])
    return pa.table({name: columns[name] for name in HOLDOUT_COMPARED.columns}).cast(HOLDOUT_COMPARED.arrow)


def _ahead(
    pool: ThreadPoolExecutor, function: Callable[[_Item], _Result], items: Iterable[_Item]
) -> Iterator[tuple[_Item, _Result]]:
    """Yield items and results in order; few items wait at a time, so that not all are in memory."""
    left = iter(items)
    while group := list(islice(left, _BATCHES)):
        yield from zip(group, pool.map(function, group), strict=True)
