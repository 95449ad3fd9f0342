"""Windows that are similar to held-out sequence, once per holdout. Not here: the search (``sources.similarity``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.genome import NO_INTERVALS, Bases, Holdout, IntervalArray, meets
from genolewm_assets.holdouts.schema import HOLDOUT_CORPUS, HOLDOUT_SIMILAR, CorpusReason, SimilarReason
from genolewm_assets.variants import join_columns
from genolewm_assets.windows.corpus import CorpusSource

#: Origin of a window of the reference in the table of similar windows; a corpus window has its source.
REFERENCE = "reference"

#: Columns of ``CORPUS_WINDOWS`` that are compared.
SEQUENCE_COLUMNS = ("source", "record_id", "window_index", "sequence", "right_flank")

Held = Mapping[str, IntervalArray]


class WindowKey(NamedTuple):
    """What names a window: contig and start (0-based) of a reference window, record and number of a corpus window."""

    origin: str
    contig: str = ""
    start: int = 0
    record_id: str = ""
    window_index: int = 0


class Query(NamedTuple):
    """Window to compare: the upper-case ASCII bases that trainers can see, and whether introns may be cut out."""

    key: WindowKey
    bases: bytes
    transcribed: bool = False


class HeldPlace(NamedTuple):
    """Held-out sequence that a window is similar to.

    Attributes
    ----------
    contig, start, end, strand
        Place, 0-based half-open; ``-``: the window is similar to the reverse complement.
    identity
        Share of equal bases outside repeats, each gap counted as one base, 0 to 1; None: not aligned.
    aligned_bp
        Aligned bases outside repeats.
    """

    contig: str
    start: int
    end: int
    strand: str
    identity: float | None
    aligned_bp: int


@dataclass(frozen=True, slots=True)
class Similarity:
    """Similarity of a window to held-out sequence.

    Attributes
    ----------
    places
        Where, the best place first; at least one.
    share
        Share of the window's bases in chained alignments to held-out sequence, 0 to 1.
    shared_kmers
        21-mers shared with held-out sequence in the window's densest stretch of 1,000; without those in repeats,
        unless the reason is ``repeats``.
    """

    key: WindowKey
    reason: SimilarReason
    places: tuple[HeldPlace, ...]
    share: float
    shared_kmers: int


class SimilaritySearch(Protocol):
    """Compares windows with held-out sequence."""

    def __call__(self, held: Held, queries: Callable[[], Iterable[Query]]) -> Iterator[Similarity]:
        """Yield the similar windows; one may be yielded several times, with different places."""


def reference_queries(
    windows: Mapping[str, pa.Table], bases: Callable[[str], Bases], held: Held, *, margin_bp: int
) -> Iterator[Query]:
    """Yield the reference windows, each with the flank behind it, that overlap no held-out interval."""
    for contig, table in windows.items():
        start, end = table["start"].to_numpy(), table["end"].to_numpy() + margin_bp
        free = np.flatnonzero(~meets(held.get(contig, NO_INTERVALS), start, end))
        sequence = bases(contig)
        for row in free.tolist():
            yield Query(WindowKey(REFERENCE, contig, int(start[row])), sequence[int(start[row]) : int(end[row])])


def corpus_keys(table: pa.Table) -> pa.Array:
    """Return one text for each corpus window of a table with the columns source, record_id and window_index."""
    return join_columns(table["source"], pc.cast(table["window_index"], pa.string()), table["record_id"])


def corpus_queries(tables: Iterable[pa.Table], excluded: pa.Table) -> Iterator[Query]:
    """Yield the corpus windows that are not excluded by their place, each with the flank behind it."""
    known = pc.unique(corpus_keys(excluded))
    for table in tables:
        table = table.filter(pc.invert(pc.is_in(corpus_keys(table), value_set=known)))  # noqa: PLW2901
        for source, record, index, sequence, flank in zip(
            *(table[name].to_pylist() for name in SEQUENCE_COLUMNS), strict=True
        ):
            key = WindowKey(source, record_id=record, window_index=index)
            yield Query(key, f"{sequence}{flank}".encode(), CorpusSource(source).is_transcribed)


def list_similar(similar: Iterable[Similarity], held: Mapping[Holdout, Held]) -> tuple[pa.Table, Counter[str]]:
    """List the similar windows, each with its best place in each holdout."""
    rows: dict[tuple[WindowKey, Holdout], dict[str, object]] = {}
    reasons: dict[WindowKey, SimilarReason] = {}
    ranks = list(SimilarReason)
    for found in similar:
        before = reasons.get(found.key)
        reasons[found.key] = found.reason if before is None else min(found.reason, before, key=ranks.index)
        for holdout, intervals in held.items():
            place = next((place for place in found.places if _is_in(place, intervals)), None)
            row = rows.get((found.key, holdout))
            if place is not None and (row is None or _rank(row) > (ranks.index(found.reason), -found.shared_kmers)):
                rows[found.key, holdout] = _row(found, holdout, place)
    order = [(name, "ascending") for name in HOLDOUT_SIMILAR.key]
    table = pa.Table.from_pylist(list(rows.values()), schema=HOLDOUT_SIMILAR.arrow).sort_by(order).combine_chunks()
    counts = Counter({f"similar.{kind}.{reason}": 0 for kind in (REFERENCE, "corpus") for reason in SimilarReason})
    for key, reason in reasons.items():
        counts[f"similar.{REFERENCE if key.origin == REFERENCE else 'corpus'}.{reason}"] += 1
    return table, counts


def similar_corpus_rows(similar: pa.Table) -> pa.Table:
    """Return the corpus windows that are excluded as similar, schema ``HOLDOUT_CORPUS``."""
    ours = similar.filter(pc.and_(is_excluded(similar), pc.not_equal(similar["origin"], REFERENCE)))
    reason = pa.array([str(CorpusReason.SIMILAR)] * ours.num_rows, pa.string())
    columns = [ours[name] for name in ("origin", "record_id", "window_index", "holdout")]
    return pa.table([*columns, reason], schema=HOLDOUT_CORPUS.arrow)


def is_excluded(similar: pa.Table) -> pa.ChunkedArray:
    """Tell which rows exclude their window from training: all but those by repeats alone; bool, shape (n_rows,)."""
    return pc.not_equal(similar["reason"], str(SimilarReason.REPEATS))


def _is_in(place: HeldPlace, intervals: Held) -> bool:
    start, end = (np.array([at], np.int64) for at in (place.start, place.end))
    return bool(meets(intervals.get(place.contig, NO_INTERVALS), start, end)[0])


def _rank(row: Mapping[str, object]) -> tuple[int, int]:
    return list(SimilarReason).index(SimilarReason(str(row["reason"]))), -int(str(row["shared_kmers"]))


def _row(found: Similarity, holdout: Holdout, place: HeldPlace) -> dict[str, object]:
    return {
        **found.key._asdict(),
        "holdout": str(holdout),
        "held_contig": place.contig,
        "held_start": place.start,
        "held_end": place.end,
        "strand": place.strand,
        "identity": place.identity,
        "aligned_bp": place.aligned_bp,
        "share": found.share,
        "shared_kmers": found.shared_kmers,
        "reason": str(found.reason),
    }
