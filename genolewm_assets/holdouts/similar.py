"""Windows that are similar to held-out sequence, once per holdout. Not here: the search (``sources.similarity``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.genome import NO_INTERVALS, Bases, Holdout, IntervalArray, meets
from genolewm_assets.holdouts.corpus import CORPUS_COLUMNS
from genolewm_assets.holdouts.schema import (
    HOLDOUT_COMPARED,
    HOLDOUT_CORPUS,
    HOLDOUT_SIMILAR,
    ORIGINS,
    REFERENCE,
    CorpusReason,
    SimilarReason,
)
from genolewm_assets.variants import Bools, as_bools, join_columns
from genolewm_assets.windows.corpus import CorpusSource

#: Name under which windows are counted that are similar to held-out sequence by repeats alone.
BY_REPEATS = "repeats"

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


#: Windows to compare: key, piece that has it, upper-case ASCII bases that trainers can see, and whether introns may be
#: cut out.
QUERIES = pa.schema(
    [
        *(HOLDOUT_COMPARED.arrow.field(name) for name in (*WindowKey._fields, "piece")),
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
class Kept:
    """What an earlier release found, and for what it is valid.

    ``compared``: schema ``HOLDOUT_COMPARED``. ``held``: what was held out. ``pieces``: pieces that have not changed.
    """

    compared: pa.Table
    held: Held
    pieces: frozenset[str]


@dataclass(frozen=True, slots=True)
class Compared:
    """Windows compared with held-out sequence.

    Attributes
    ----------
    compared
        Schema ``HOLDOUT_COMPARED``, sorted by its key.
    similar
        Rows of ``compared`` of windows that are similar to their interval, with a column ``reason``.
    by_repeats
        Number of windows, by origin, that share 21-mers with held-out sequence in repeats alone; they are not similar.
    """

    compared: pa.Table
    similar: pa.Table
    by_repeats: Counter[str]


class SimilaritySearch(Protocol):
    """Compares windows with held-out sequence."""

    def __call__(self, held: Held, queries: Iterable[pa.Table], kept: Kept | None) -> Compared:
        """Compare the windows of tables with schema ``QUERIES``; the result does not depend on what is ``kept``."""


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
                [origin, on, pa.array(start[rows]), no_record, zeros, on, cut, pa.repeat(False, len(rows))],
                schema=QUERIES,
            )


def corpus_keys(table: pa.Table) -> pa.Array:
    """Return one text for each corpus window of a table with the columns source, record_id and window_index."""
    return join_columns(table["source"], pc.cast(table["window_index"], pa.string()), table["record_id"])


def corpus_queries(
    tables: Iterable[tuple[str, pa.Table]], is_placed: Callable[[pa.Table], Bools]
) -> Iterator[pa.Table]:
    """Yield the corpus windows (``QUERIES``) of pieces, each with the flank behind it, that no place excludes."""
    transcribed = pa.array([str(source) for source in CorpusSource if source.is_transcribed], pa.string())
    for piece, whole in tables:
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
                pa.repeat(piece, n),
                pc.cast(pc.cast(bases, pa.large_string()), pa.large_binary()),
                pc.is_in(table["source"], value_set=transcribed),
            ],
            schema=QUERIES,
        )


def list_similar(found: pa.Table, held: Mapping[Holdout, Held]) -> tuple[pa.Table, Counter[str]]:
    """List the similar windows, each with its best place in each holdout; count them by origin and first reason.

    ``found``: see :class:`Compared`. The best place is that of the strongest reason, then of most shared 21-mers.
    """
    parts = [found.slice(0, 0).append_column(HOLDOUT_SIMILAR.arrow.field("holdout"), pa.array([], pa.string()))]
    start, end = (found[name].to_numpy() for name in ("held_start", "held_end"))
    for holdout, intervals in held.items():
        inside = np.zeros(found.num_rows, dtype=bool)
        for contig in pc.unique(found["held_contig"]).to_pylist():
            ours = as_bools(pc.equal(found["held_contig"], contig))
            inside[ours] = meets(intervals.get(contig, NO_INTERVALS), start[ours], end[ours])
        rows = found.filter(pa.array(inside))
        parts.append(rows.append_column(HOLDOUT_SIMILAR.arrow.field("holdout"), pa.repeat(str(holdout), rows.num_rows)))
    listed = pa.concat_tables(parts)
    rank = pc.index_in(listed["reason"], value_set=pa.array([*map(str, SimilarReason)]))
    ranked = [("rank", "ascending"), ("shared_kmers", "descending"), *_order("held_contig", "unit_start", "number")]
    ordered = listed.append_column("rank", rank).sort_by([*_order(*HOLDOUT_SIMILAR.key), *ranked]).combine_chunks()
    best = ordered.filter(pa.array(is_first(ordered, HOLDOUT_SIMILAR.key)))
    counts = Counter({f"similar.{origin}.{reason}": 0 for origin in ORIGINS for reason in SimilarReason})
    firsts = best.group_by(list(WindowKey._fields)).aggregate([("rank", "min")])
    for row in firsts.group_by(["origin", "rank_min"]).aggregate([([], "count_all")]).to_pylist():
        counts[f"similar.{row['origin']}.{tuple(SimilarReason)[row['rank_min']]}"] += row["count_all"]
    return best.select(HOLDOUT_SIMILAR.columns).cast(HOLDOUT_SIMILAR.arrow), counts


def is_first(table: pa.Table, key: Sequence[str]) -> Bools:
    """Tell which rows of a sorted table are the first with their values of some columns: bool, shape (n_rows,)."""
    new = np.zeros(table.num_rows, dtype=bool)
    new[:1] = True
    for name in key:
        new[1:] |= as_bools(pc.not_equal(table[name][1:], table[name][:-1]))
    return new


def _order(*names: str) -> list[tuple[str, str]]:
    return [(name, "ascending") for name in names]


def similar_corpus_rows(similar: pa.Table) -> pa.Table:
    """Return the corpus windows that are excluded as similar, schema ``HOLDOUT_CORPUS``."""
    ours = similar.filter(pc.not_equal(similar["origin"], REFERENCE))
    reason = pa.array([str(CorpusReason.SIMILAR)] * ours.num_rows, pa.string())
    columns = [ours[name] for name in ("origin", "record_id", "window_index", "holdout")]
    return pa.table([*columns, reason], schema=HOLDOUT_CORPUS.arrow)
