"""Find windows of the pretraining corpus that are, or may be, in held-out intervals of the reference.

Only placement is used; sequence similarity is a separate search.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.genome import Holdout, IntervalArray
from genolewm_assets.lewm.corpus import PlacementHow
from genolewm_assets.lewm.holdouts.overlap import meets
from genolewm_assets.lewm.holdouts.schema import HOLDOUT_CORPUS, CorpusReason
from genolewm_assets.variants import Bools, as_bools

#: Columns of ``CORPUS_WINDOWS`` that this module reads.
CORPUS_COLUMNS = (
    "source",
    "record_id",
    "window_index",
    "maybe_human",
    "placement_how",
    "placed_contig",
    "placed_start",
    "placed_end",
)


def hold_out_corpus(
    corpus: Iterable[pa.Table],
    held: Mapping[Holdout, Mapping[str, IntervalArray]],
    *,
    inconclusive: Set[str],
    margin_bp: int,
) -> pa.Table:
    """Find the corpus windows that are excluded from training.

    Parameters
    ----------
    corpus
        Tables or batches with the columns :data:`CORPUS_COLUMNS`.
    held
        Held-out intervals by holdout and contig, disjoint and sorted by start.
    inconclusive
        Contigs of which the reference lacks so much that no alignment, or an alignment to another contig, does not show
        that a window is not from the contig.
    margin_bp
        Length of each flank of a window, in bases.

    Returns
    -------
    pyarrow.Table
        Schema ``HOLDOUT_CORPUS``, sorted by its key.

    Notes
    -----
    In doubt, a window is excluded. A window of which only the contig is known is excluded if any part of that contig is
    held out. While a contig with held-out intervals is inconclusive, a window that may be human is excluded too, unless
    its record gives coordinates or the name of another contig; an alignment to another place is not enough, because it
    may be to a copy.
    """
    parts = [HOLDOUT_CORPUS.empty()]
    for table in corpus:
        for holdout, intervals in held.items():
            placed = _is_placed_in(table, intervals, margin_bp)
            suspect = _may_come_from(table, intervals.keys(), inconclusive)
            for mask, reason in ((placed, CorpusReason.PLACED), (suspect & ~placed, CorpusReason.FAIL_CLOSED)):
                rows = table.select(CORPUS_COLUMNS[:3]).filter(pa.array(mask))
                constants = ([str(value)] * rows.num_rows for value in (holdout, reason))
                columns = [*rows.columns, *(pa.array(values, pa.string()) for values in constants)]
                parts.append(pa.table(columns, schema=HOLDOUT_CORPUS.arrow))
    return pa.concat_tables(parts).sort_by([(name, "ascending") for name in HOLDOUT_CORPUS.key]).combine_chunks()


def _is_placed_in(table: pa.Table, intervals: Mapping[str, IntervalArray], margin_bp: int) -> Bools:
    """Tell which windows, including both flanks, overlap an interval.

    Both flanks are tested because the right flank of a window on strand ``-`` is to its left on the contig.
    """
    start, end = (pc.fill_null(table[name], -1).to_numpy() for name in ("placed_start", "placed_end"))
    known = as_bools(pc.is_valid(table["placed_start"]))
    found = np.zeros(table.num_rows, dtype=bool)
    for contig, merged in intervals.items():
        rows = np.flatnonzero(known & as_bools(pc.equal(table["placed_contig"], contig)))
        found[rows] = meets(merged, start[rows] - margin_bp, end[rows] + margin_bp)
    return found


def _may_come_from(table: pa.Table, contigs: Set[str], inconclusive: Set[str]) -> Bools:
    """Tell which windows may come from one of the contigs although their coordinates are not known for certain."""
    how = table["placement_how"]
    by_name = as_bools(pc.equal(how, PlacementHow.CONTIG_NAME))
    on_these = as_bools(pc.is_in(table["placed_contig"], value_set=pa.array(sorted(contigs), pa.string())))
    if not contigs & inconclusive:
        return by_name & on_these
    loose = as_bools(pc.is_in(how, value_set=pa.array([PlacementHow.NONE, PlacementHow.MAPPY], pa.string())))
    return (by_name & on_these) | (loose & as_bools(table["maybe_human"]))
