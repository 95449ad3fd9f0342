"""Windows that are similar to held-out sequence, once per holdout. Not here: the search (``sources.similarity``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.genome import NO_INTERVALS, Holdout, IntervalArray, meets
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
from genolewm_assets.variants import Bools, Int64s, as_bools, join_columns
from genolewm_assets.windows.bases import BASES_NAME, packed_sizes, unpack_texts
from genolewm_assets.windows.corpus import CorpusSource

#: Name under which windows are counted that are similar to held-out sequence by repeats alone.
BY_REPEATS = "repeats"

#: Columns of ``CORPUS_WINDOWS`` that tell which windows are compared, and where their bases are.
SEQUENCE_COLUMNS = (*CORPUS_COLUMNS, "window_bp")

Packed = NDArray[np.uint8]
Held = Mapping[str, IntervalArray]


class WindowKey(NamedTuple):
    """What names a window: contig and start (0-based) of a reference window, record and number of a corpus window."""

    origin: str
    contig: str = ""
    start: int = 0
    record_id: str = ""
    window_index: int = 0


_BASES = pa.field("bases", pa.large_binary(), nullable=False)
_KEYS = pa.schema(
    [
        *(HOLDOUT_COMPARED.arrow.field(name) for name in (*WindowKey._fields, "piece")),
        pa.field("transcribed", pa.bool_(), nullable=False),
    ]
)
#: Windows to compare: key, piece that has it, whether introns may be cut out, and upper-case ASCII bases that trainers
#: can see.
QUERIES = _KEYS.append(_BASES)


@dataclass(frozen=True, slots=True)
class PieceQueries:
    """Windows of one piece that are compared, each with the flank behind it.

    Attributes
    ----------
    name
        Contig or piece.
    keys
        Columns of ``QUERIES`` but the bases.
    rows
        Numbers of the windows in the piece: int64, shape (n_windows,), ascending.
    packed
        Bases of the whole piece, four a byte, as ``windows.bases`` writes them.
    first, n_bases
        First byte and bases of each window with both flanks: int64, shape (n_windows,).
    margin_bp
        Bases of the flank before each window, which are not compared.
    """

    name: str
    keys: pa.Table
    rows: Int64s
    packed: Packed
    first: Int64s
    n_bases: Int64s
    margin_bp: int

    @classmethod
    def of(cls, keys: pa.Table, rows: Int64s, packed: Packed, window_bp: Int64s, *, margin_bp: int, name: str) -> Self:
        """Return the windows with numbers ``rows``, with keys as in ``QUERIES``; ``window_bp``: of the whole piece."""
        n_bases = window_bp.astype(np.int64) + 2 * margin_bp
        ends = np.cumsum(packed_sizes(n_bases))
        if (expected := int(ends[-1]) if ends.size else 0) != packed.size:
            raise CorruptResourceError(
                f"{BASES_NAME} of {name}",
                "does not have the bases of its windows",
                expected=f"{expected:,} bytes",
                got=f"{packed.size:,} bytes",
                remedy="Rebuild the windows of the piece",
            )
        first = ends - packed_sizes(n_bases)
        return cls(name, keys.cast(_KEYS), rows, packed, first[rows], n_bases[rows], margin_bp)

    def read(self, at: Int64s) -> pa.Table:
        """Return windows by their place among these, schema ``QUERIES``."""
        bases = unpack_texts(self.packed, self.first[at], self.n_bases[at], skipped=self.margin_bp)
        return self.keys.take(pa.array(at)).append_column(_BASES, bases)


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
        Windows, by origin, that share 21-mers with held-out sequence in repeats alone, and are not similar: estimated
        from the first 256 of every 8,192 of a piece.
    """

    compared: pa.Table
    similar: pa.Table
    by_repeats: Counter[str]


class SimilaritySearch(Protocol):
    """Compares windows with held-out sequence."""

    def __call__(self, held: Held, queries: Iterable[PieceQueries], kept: Kept | None) -> Compared:
        """Compare the windows of pieces; the result does not depend on what is ``kept``."""


def reference_queries(
    windows: Mapping[str, pa.Table], bases: Callable[[str], Packed], held: Held, *, margin_bp: int
) -> Iterator[PieceQueries]:
    """Yield the reference windows, by contig, that overlap no held-out interval; ``bases``: packed, of a contig."""
    for contig, table in windows.items():
        start, end = table["start"].to_numpy(), table["end"].to_numpy()
        rows = np.flatnonzero(~meets(held.get(contig, NO_INTERVALS), start, end + margin_bp))
        origin, on, no_record = (pa.repeat(text, len(rows)) for text in (REFERENCE, contig, ""))
        zeros, no = pa.array(np.zeros(len(rows), np.int32)), pa.repeat(False, len(rows))
        keys = pa.table([origin, on, pa.array(start[rows]), no_record, zeros, on, no], _KEYS.names)
        yield PieceQueries.of(keys, rows, bases(contig), end - start, margin_bp=margin_bp, name=contig)


def corpus_keys(table: pa.Table) -> pa.Array:
    """Return one text for each corpus window of a table with the columns source, record_id and window_index."""
    return join_columns(table["source"], pc.cast(table["window_index"], pa.string()), table["record_id"])


def corpus_queries(
    tables: Iterable[tuple[str, pa.Table]],
    bases: Callable[[str], Packed],
    is_placed: Callable[[pa.Table], Bools],
    *,
    margin_bp: int,
) -> Iterator[PieceQueries]:
    """Yield the corpus windows, by piece, that no place excludes; ``bases``: packed, of a piece."""
    transcribed = pa.array([str(source) for source in CorpusSource if source.is_transcribed], pa.string())
    for piece, whole in tables:
        rows = np.flatnonzero(~is_placed(whole))
        table, n = whole.take(pa.array(rows)), len(rows)
        no_contig, no_start, on = pa.repeat("", n), pa.array(np.zeros(n, np.int64)), pa.repeat(piece, n)
        named = table["source"], no_contig, no_start, table["record_id"], table["window_index"], on
        keys = pa.table([*named, pc.is_in(table["source"], value_set=transcribed)], _KEYS.names)
        sizes = whole["window_bp"].to_numpy()
        yield PieceQueries.of(keys, rows, bases(piece), sizes, margin_bp=margin_bp, name=piece)


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
