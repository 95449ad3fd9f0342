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
    "stated_contig",
    "stated_start",
    "stated_end",
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
        Contigs of which the reference lacks so much that no alignment, or an alignment to another place, does not show
        that a window is not from the contig.
    margin_bp
        Length of each flank of a window, in bases.

    Returns
    -------
    pyarrow.Table
        Schema ``HOLDOUT_CORPUS``, sorted by its key.

    Notes
    -----
    In doubt, a window is excluded. Coordinates that a record states count although the reference could not confirm
    them and the window aligns elsewhere. A window of which only the contig is known, or that aligns to another contig
    than its record states, is excluded if any part of the stated contig is held out.

    While a contig with held-out intervals is inconclusive, every window that may be human is excluded, unless confirmed
    coordinates place it elsewhere. What a record states is not enough, nor an alignment, because it may be to a copy.
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
    """Tell which windows, including both flanks, overlap an interval, as placed or as stated.

    Both flanks are tested because the right flank of a window on strand ``-`` is to its left on the contig.
    """
    found = np.zeros(table.num_rows, dtype=bool)
    for place in ("placed", "stated"):
        start, end = (pc.fill_null(table[f"{place}_{bound}"], -1).to_numpy() for bound in ("start", "end"))
        known = as_bools(pc.is_valid(table[f"{place}_start"]))
        for contig, merged in intervals.items():
            rows = np.flatnonzero(known & as_bools(pc.equal(table[f"{place}_contig"], contig)))
            found[rows] |= meets(merged, start[rows] - margin_bp, end[rows] + margin_bp)
    return found


def _may_come_from(table: pa.Table, contigs: Set[str], inconclusive: Set[str]) -> Bools:
    """Tell which windows may come from one of the contigs although they are not known to overlap an interval."""
    suspect = np.zeros(table.num_rows, dtype=bool)
    for place in ("placed", "stated"):
        on_these = pc.is_in(table[f"{place}_contig"], value_set=pa.array(sorted(contigs), pa.string()))
        suspect |= as_bools(on_these) & as_bools(pc.is_null(table[f"{place}_start"]))
    if contigs & inconclusive:
        confirmed = as_bools(pc.equal(table["placement_how"], PlacementHow.COORDINATES))
        suspect |= ~confirmed & as_bools(table["maybe_human"])
    return suspect
