"""Counts of held-out windows, units, alleles and corpus windows, by holdout, role and reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.genome import EVALUATION, HARMFUL, Holdout
from genolewm_assets.lewm.holdouts.alleles import find_newly_labelled
from genolewm_assets.lewm.holdouts.overlap import NO_INTERVALS, meets, merge_intervals
from genolewm_assets.lewm.holdouts.schema import AlleleReason, CorpusReason
from genolewm_assets.variants import Int64s, as_bools


def count_windows(intervals: pa.Table, footprints: Mapping[str, tuple[Int64s, Int64s]]) -> Counter[str]:
    """Count the windows that the intervals of each holdout, and of each of its roles, exclude from training.

    Parameters
    ----------
    intervals
        Schema ``HOLDOUT_INTERVALS``.
    footprints
        Starts and ends of the windows' footprints by contig, each int64, shape (n_windows,), 0-based half-open.

    Returns
    -------
    Counter
        ``windows``, ``windows.held_out``, ``windows.<holdout>`` and ``windows.<holdout>.<role>``, zeros included. One
        window may count for several holdouts, and for both roles of a holdout.
    """
    counts: Counter[str] = Counter()
    for holdout in Holdout:
        ours = intervals.filter(pc.equal(intervals["holdout"], holdout))
        counts[f"windows.{holdout}"] = _count_overlapping(ours, footprints)
        for role in EVALUATION:
            with_role = ours.filter(pc.equal(ours["role"], role))
            counts[f"windows.{holdout}.{role}"] = _count_overlapping(with_role, footprints)
    counts["windows"] = sum(len(start) for start, _ in footprints.values())
    counts["windows.held_out"] = _count_overlapping(intervals, footprints)
    return counts


def count_rows(intervals: pa.Table, alleles: pa.Table, corpus: pa.Table) -> Counter[str]:
    """Count units, alleles and corpus windows by holdout and role or reason, zeros included.

    Parameters
    ----------
    intervals, alleles, corpus
        Schemas ``HOLDOUT_INTERVALS``, ``HOLDOUT_ALLELES`` and ``HOLDOUT_CORPUS``.

    Returns
    -------
    Counter
        ``units.<holdout>.<role>``, ``alleles.<holdout>.<reason>``, ``corpus_windows.<holdout>.<reason>``, and
        ``corpus_windows.held_out``, which counts each corpus window once.
    """
    counts: Counter[str] = Counter()
    for holdout in Holdout:
        for role in EVALUATION:
            ours = pc.and_(pc.equal(intervals["holdout"], holdout), pc.equal(intervals["role"], role))
            counts[f"units.{holdout}.{role}"] = len(pc.unique(intervals["unit"].filter(ours)))
        for noun, table, reasons in (("alleles", alleles, AlleleReason), ("corpus_windows", corpus, CorpusReason)):
            found = Counter(table["reason"].filter(pc.equal(table["holdout"], holdout)).to_pylist())
            counts.update({f"{noun}.{holdout}.{reason}": found[reason] for reason in reasons})
    counts["corpus_windows.held_out"] = (
        corpus.select(["source", "record_id", "window_index"])
        .group_by(["source", "record_id", "window_index"])
        .aggregate([])
        .num_rows
    )
    return counts


def count_new_labels(later: Mapping[str, pa.Table], earlier: Mapping[str, pa.Table]) -> Counter[str]:
    """Count the newly labelled alleles with any number of review stars.

    Parameters
    ----------
    later, earlier
        ClinVar alleles of each release by contig, with columns ``ALLELE_KEY`` and ``label``.

    Returns
    -------
    Counter
        ``new_labels.<reason>.<pathogenic|benign>``, where the reason is ``became_labelled`` or ``new``.
    """
    counts: Counter[str] = Counter()
    for contig, table in later.items():
        newly, is_new = find_newly_labelled(table, earlier.get(contig, table.slice(0, 0)))
        pathogenic = as_bools(pc.is_in(table["label"], value_set=pa.array(HARMFUL)))
        for reason, among in ((AlleleReason.BECAME_LABELLED, ~is_new), (AlleleReason.NEW, is_new)):
            for name, labels in (("pathogenic", pathogenic), ("benign", ~pathogenic)):
                counts[f"new_labels.{reason}.{name}"] += int(np.count_nonzero(newly & among & labels))
    return counts


def _count_overlapping(intervals: pa.Table, footprints: Mapping[str, tuple[Int64s, Int64s]]) -> int:
    merged = merge_intervals(intervals)
    return sum(
        int(np.count_nonzero(meets(merged.get(contig, NO_INTERVALS), start, end)))
        for contig, (start, end) in footprints.items()
    )
