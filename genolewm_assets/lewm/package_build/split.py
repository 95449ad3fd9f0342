"""Which window and which allele goes into which split of a package: tables in, rows and masks out.

A holdout with intervals takes windows out of training; one that lists alleles only (the temporal one) takes just those
alleles out, and is evaluated on the windows that hold them. Where two holdouts disagree, ``test`` wins over
``validation``. Not here: what is held out (``holdouts``), the rows as they are written (``package_rows``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.genome import INSET_BP, IntervalArray, Split
from genolewm_assets.lewm.holdouts import meets
from genolewm_assets.variants import Bools, Int64s, allele_keys, allele_spans, as_bools


class HoldoutFilter(Protocol):
    """What the splits ask of the holdouts; :class:`genolewm_assets.lewm.holdouts.index.HoldoutIndex` answers."""

    def window_is_held_out(self, contig: str, footprints: IntervalArray) -> Bools:
        """Return, per footprint on ``contig``, whether it leaves training."""

    def allele_is_held_out(self, table: pa.Table) -> Bools:
        """Return, per row with chrom, pos, ref and alt, whether the allele leaves training."""


@dataclass(frozen=True, slots=True)
class RoleRegions:
    """Where one contig is held out, and for what.

    Attributes
    ----------
    intervals
        Merged intervals by (holdout, split).
    alleles
        Spans ``[pos - 1, pos - 1 + len(ref))`` of the alleles by (holdout, split), of holdouts that have no intervals.
    keys
        Keys of all held-out alleles (see :func:`genolewm_assets.variants.spans.allele_keys`) by (holdout, split).
    """

    intervals: Mapping[tuple[str, Split], IntervalArray]
    alleles: Mapping[tuple[str, Split], IntervalArray]
    keys: Mapping[tuple[str, Split], pa.Array]


@dataclass(frozen=True, slots=True)
class WindowSplit:
    """What becomes of the windows of one contig; rows are indices into its table.

    Attributes
    ----------
    held_out
        bool, shape (n_windows,): not for training.
    evaluation
        Ascending rows by (holdout, split); all candidates, not yet narrowed to the size of the validation.
    """

    held_out: Bools
    evaluation: Mapping[tuple[str, Split], Int64s]


def find_regions(contig: str, intervals: pa.Table, alleles: pa.Table) -> RoleRegions:
    """Collect what the holdout tables say about one contig.

    Parameters
    ----------
    intervals, alleles
        The whole tables, of all contigs.
    """
    with_intervals = set(pc.unique(intervals["holdout"]).to_pylist())
    ours = intervals.filter(pc.equal(intervals["contig"], contig))
    listed = alleles.filter(pc.equal(alleles["chrom"], contig))
    regions = {
        key: IntervalArray.from_unsorted(rows["start"].to_numpy(), rows["end"].to_numpy()).merge()
        for key, rows in _by_role(ours)
    }
    by_role = dict(_by_role(listed))
    return RoleRegions(
        intervals=regions,
        alleles={
            key: IntervalArray.from_unsorted(*allele_spans(rows))
            for key, rows in by_role.items()
            if key[0] not in with_intervals
        },
        keys={key: allele_keys(rows) for key, rows in by_role.items()},
    )


def split_windows(
    contig: str, windows: pa.Table, *, margin_bp: int, regions: RoleRegions, holdouts: HoldoutFilter
) -> WindowSplit:
    """Decide about every window of one contig.

    Parameters
    ----------
    windows
        Schema ``lewm.window_schema.WINDOWS``, sorted by start.
    margin_bp
        Bases behind a window that its footprint includes.

    Notes
    -----
    A window that meets a ``test`` interval of any holdout serves no validation.
    """
    start, end = windows["start"].to_numpy(), windows["end"].to_numpy()
    footprints = IntervalArray(start, end + margin_bp)
    met = {key: meets(region, footprints.start, footprints.end) for key, region in regions.intervals.items()}
    held_out = np.logical_or.reduce([holdouts.window_is_held_out(contig, footprints), *met.values()])
    met |= {key: _holding(start, end, spans) for key, spans in regions.alleles.items()}
    tested = _tested(met, set(regions.intervals), len(start))
    return WindowSplit(
        held_out=held_out,
        evaluation={
            (holdout, split): np.flatnonzero(mask & ~tested if split is Split.VALIDATION else mask).astype(np.int64)
            for (holdout, split), mask in met.items()
        },
    )


def split_alleles(
    table: pa.Table, regions: RoleRegions, holdouts: HoldoutFilter
) -> dict[str | None, dict[Split, Bools]]:
    """Decide about every allele of one contig and source.

    Parameters
    ----------
    table
        With chrom, pos, ref and alt; one contig.

    Returns
    -------
    dict
        Masks over the rows by holdout and split; training under the holdout None.

    Notes
    -----
    An allele that any holdout tests serves no validation, and none that is held out is trained on.
    """
    keys, (start, end) = allele_keys(table), allele_spans(table)
    met: dict[tuple[str, Split], Bools] = {}
    for key in {**regions.intervals, **regions.keys}:
        region, listed = regions.intervals.get(key), regions.keys.get(key)
        mask = np.zeros(len(keys), bool) if region is None else meets(region, start, end)
        if listed is not None:
            mask |= as_bools(pc.is_in(keys, value_set=listed))
        met[key] = mask
    held_out = np.logical_or.reduce([holdouts.allele_is_held_out(table), *met.values()])
    tested = _tested(met, set(met), len(keys))
    masks: dict[str | None, dict[Split, Bools]] = {None: {Split.TRAIN: ~held_out}}
    for (holdout, split), mask in met.items():
        masks.setdefault(holdout, {})[split] = mask & ~tested if split is Split.VALIDATION else mask
    return masks


def choose_windows(
    candidates: Mapping[str, Int64s], starts: Mapping[str, Int64s], *, holdout: str, limit: int, seed: int
) -> dict[str, Int64s]:
    """Choose at most ``limit`` windows by hash: order-free, and the smaller choice lies within the larger one.

    Parameters
    ----------
    candidates
        Rows by contig.
    starts
        First base of every window of the contig's table, 0-based.

    Returns
    -------
    dict
        Chosen rows by contig, ascending.
    """
    ranked = sorted(
        (hashlib.sha256(f"{seed}\t{holdout}\t{contig}\t{starts[contig][row]}".encode()).digest(), contig, int(row))
        for contig, rows in candidates.items()
        for row in rows
    )[:limit]
    chosen: dict[str, list[int]] = {}
    for _, contig, row in ranked:
        chosen.setdefault(contig, []).append(row)
    return {contig: np.array(sorted(rows), dtype=np.int64) for contig, rows in chosen.items()}


def _by_role(table: pa.Table) -> Iterable[tuple[tuple[str, Split], pa.Table]]:
    pairs = table.select(["holdout", "role"]).group_by(["holdout", "role"]).aggregate([]).to_pylist()
    for holdout, role in sorted((pair["holdout"], pair["role"]) for pair in pairs):
        ours = pc.and_(pc.equal(table["holdout"], holdout), pc.equal(table["role"], role))
        yield (holdout, Split(role)), table.filter(ours)


def _tested(met: Mapping[tuple[str, Split], Bools], keys: set[tuple[str, Split]], n: int) -> Bools:
    masks = [mask for key, mask in met.items() if key in keys and key[1] is Split.TEST]
    tested: Bools = np.logical_or.reduce([np.zeros(n, bool), *masks])
    return tested


def _holding(start: Int64s, end: Int64s, alleles: IntervalArray) -> Bools:
    """Tell which windows, sorted and of one size, hold an allele inside the inset, where it can be an edit."""
    first = np.searchsorted(end - INSET_BP, alleles.end, side="left")
    last = np.searchsorted(start + INSET_BP, alleles.start, side="right")
    found, steps = last > first, np.zeros(len(start) + 1, np.int64)
    np.add.at(steps, first[found], 1)
    np.add.at(steps, last[found], -1)
    held: Bools = np.cumsum(steps)[:-1] > 0
    return held
