"""Windows that are similar to held-out sequence, once per holdout. Not here: the search (``sources.similarity``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.genome import NO_INTERVALS, Bases, Holdout, IntervalArray, meets
from genolewm_assets.holdouts.corpus import CORPUS_COLUMNS
from genolewm_assets.holdouts.schema import HOLDOUT_CORPUS, HOLDOUT_SIMILAR, CorpusReason, SimilarReason
from genolewm_assets.variants import Bools, as_bools, join_columns
from genolewm_assets.windows.corpus import CorpusSource

#: Origin of a window of the reference in the table of similar windows; a corpus window has its source.
REFERENCE = "reference"
#: All origins.
ORIGINS = (REFERENCE, *CorpusSource)

#: Columns of ``CORPUS_WINDOWS`` that are compared, and those that tell where a window is from.
SEQUENCE_COLUMNS = (*CORPUS_COLUMNS, "sequence", "right_flank")

Held = Mapping[str, IntervalArray]


class WindowKey(NamedTuple):
    """What names a window: contig and start (0-based) of a reference window, record and number of a corpus window."""

    origin: str
    contig: str = ""
    start: int = 0
    record_id: str = ""
    window_index: int = 0


#: Windows to compare: key, upper-case ASCII bases that trainers can see, and whether introns may be cut out.
QUERIES = pa.schema(
    [
        pa.field("origin", pa.string(), nullable=False),
        pa.field("contig", pa.string(), nullable=False),
        pa.field("start", pa.int64(), nullable=False),
        pa.field("record_id", pa.string(), nullable=False),
        pa.field("window_index", pa.int32(), nullable=False),
        pa.field("bases", pa.large_binary(), nullable=False),
        pa.field("transcribed", pa.bool_(), nullable=False),
    ]
)
#: Reference windows of one table of queries.
_ROWS = 512


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

    def __call__(self, held: Held, queries: Iterable[pa.Table]) -> Iterator[Similarity]:
        """Yield the similar windows of tables with schema ``QUERIES``; one may be yielded with several places."""


def reference_queries(
    windows: Mapping[str, pa.Table], bases: Callable[[str], Bases], held: Held, *, margin_bp: int
) -> Iterator[pa.Table]:
    """Yield the reference windows (``QUERIES``), each with the flank behind it, that overlap no held-out interval."""
    for contig, table in windows.items():
        start, end = table["start"].to_numpy(), table["end"].to_numpy() + margin_bp
        free = np.flatnonzero(~meets(held.get(contig, NO_INTERVALS), start, end))
        sequence = bases(contig)
        for first in range(0, len(free), _ROWS):
            rows = free[first : first + _ROWS]
            spans = zip(start[rows].tolist(), end[rows].tolist(), strict=True)
            cut = pa.array([sequence[a:b] for a, b in spans], pa.large_binary())
            origin, on, no_record = (pa.repeat(text, len(rows)) for text in (REFERENCE, contig, ""))
            zeros = pa.array(np.zeros(len(rows), np.int32))
            yield pa.table(
                [origin, on, pa.array(start[rows]), no_record, zeros, cut, pa.repeat(False, len(rows))],
                schema=QUERIES,
            )


def corpus_keys(table: pa.Table) -> pa.Array:
    """Return one text for each corpus window of a table with the columns source, record_id and window_index."""
    return join_columns(table["source"], pc.cast(table["window_index"], pa.string()), table["record_id"])


def corpus_queries(tables: Iterable[pa.Table], is_placed: Callable[[pa.Table], Bools]) -> Iterator[pa.Table]:
    """Yield the corpus windows (``QUERIES``), each with the flank behind it, that their place does not exclude."""
    transcribed = pa.array([str(source) for source in CorpusSource if source.is_transcribed], pa.string())
    for whole in tables:
        table = whole.filter(pa.array(~is_placed(whole)))
        n = table.num_rows
        bases = pc.binary_join_element_wise(table["sequence"], table["right_flank"], "")
        yield pa.table(
            [
                table["source"],
                pa.repeat("", n),
                pa.array(np.zeros(n, np.int64)),
                table["record_id"],
                table["window_index"],
                pc.cast(pc.cast(bases, pa.large_string()), pa.large_binary()),
                pc.is_in(table["source"], value_set=transcribed),
            ],
            schema=QUERIES,
        )


def list_similar(similar: Iterable[Similarity], held: Mapping[Holdout, Held]) -> tuple[pa.Table, Counter[str]]:
    """List the similar windows, each with its best place in each holdout; count them by origin and first reason."""
    found, waiting = _FOUND.empty_table(), list[pa.Table]()
    left, n, n_waiting = iter(similar), 0, 0
    while some := list(islice(left, _LISTED)):
        waiting.append(_places_in(some, held, n))
        n, n_waiting = n + len(some), n_waiting + waiting[-1].num_rows
        if n_waiting > max(_KEPT, found.num_rows):
            found, waiting, n_waiting = _best(pa.concat_tables([found, *waiting])), [], 0
    found = _best(pa.concat_tables([found, *waiting]))
    counts = Counter({f"similar.{origin}.{reason}": 0 for origin in ORIGINS for reason in SimilarReason})
    firsts = found.group_by(list(WindowKey._fields)).aggregate([("rank", "min")])
    for row in firsts.group_by(["origin", "rank_min"]).aggregate([([], "count_all")]).to_pylist():
        counts[f"similar.{row['origin']}.{_RANKS[row['rank_min']]}"] += row["count_all"]
    order = [(name, "ascending") for name in HOLDOUT_SIMILAR.key]
    return found.select(HOLDOUT_SIMILAR.columns).sort_by(order).combine_chunks(), counts


_RANKS = tuple(SimilarReason)
#: Similar windows, with what orders those of one window and holdout.
_FOUND = HOLDOUT_SIMILAR.arrow.append(pa.field("rank", pa.int8())).append(pa.field("number", pa.int64()))
#: Similarities that are objects at a time, and rows that are kept at least before the best of them are chosen.
_LISTED, _KEPT = 4_096, 1 << 17


def _places_in(similar: Sequence[Similarity], held: Mapping[Holdout, Held], first: int) -> pa.Table:
    """List the first place of each similarity that is in each holdout, schema ``_FOUND``."""
    owners = np.repeat(np.arange(len(similar)), [len(each.places) for each in similar])
    places = [place for each in similar for place in each.places]
    contigs = np.array([place.contig for place in places])
    start, end = (np.array([getattr(place, bound) for place in places], np.int64) for bound in ("start", "end"))
    rows: list[dict[str, object]] = []
    for holdout, intervals in held.items():
        inside = np.zeros(len(places), dtype=bool)
        for contig in np.unique(contigs).tolist():
            ours = contigs == contig
            inside[ours] = meets(intervals.get(contig, NO_INTERVALS), start[ours], end[ours])
        met = np.flatnonzero(inside)
        owner, at = np.unique(owners[met], return_index=True)
        for number, place in zip(owner.tolist(), met[at].tolist(), strict=True):
            row = _row(similar[number], holdout, places[place])
            rows.append(row | {"rank": _RANKS.index(similar[number].reason), "number": first + number})
    return pa.Table.from_pylist(rows, schema=_FOUND)


def _best(found: pa.Table) -> pa.Table:
    """Return the best row of each window and holdout: by reason, then most shared 21-mers, then the first found."""
    key = list(HOLDOUT_SIMILAR.key)
    ranked = [("rank", "ascending"), ("shared_kmers", "descending"), ("number", "ascending")]
    ordered = found.sort_by([*((name, "ascending") for name in key), *ranked]).combine_chunks()
    new = np.zeros(ordered.num_rows, dtype=bool)
    new[:1] = True
    for name in key:
        new[1:] |= as_bools(pc.not_equal(ordered[name][1:], ordered[name][:-1]))
    return ordered.filter(pa.array(new))


def similar_corpus_rows(similar: pa.Table) -> pa.Table:
    """Return the corpus windows that are excluded as similar, schema ``HOLDOUT_CORPUS``."""
    ours = similar.filter(pc.and_(is_excluded(similar), pc.not_equal(similar["origin"], REFERENCE)))
    reason = pa.array([str(CorpusReason.SIMILAR)] * ours.num_rows, pa.string())
    columns = [ours[name] for name in ("origin", "record_id", "window_index", "holdout")]
    return pa.table([*columns, reason], schema=HOLDOUT_CORPUS.arrow)


def is_excluded(similar: pa.Table) -> pa.ChunkedArray:
    """Tell which rows exclude their window from training: all but those by repeats alone; bool, shape (n_rows,)."""
    return pc.not_equal(similar["reason"], str(SimilarReason.REPEATS))


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
