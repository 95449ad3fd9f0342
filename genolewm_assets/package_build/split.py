"""Divide the windows and alleles of a contig into the splits of a package; results are row numbers and masks.

A holdout with alleles only (the temporal one) excludes these alleles, and is evaluated on the windows that contain
them. If two holdouts disagree, ``test`` has precedence over ``validation``. Not here: rows (``rows``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.genome import INSET_BP, IntervalArray, Split, meets
from genolewm_assets.holdouts import HoldoutIndex
from genolewm_assets.variants import ALLELE_KEY, Bools, Int64s, allele_keys, allele_spans, as_bools


@dataclass(frozen=True, slots=True)
class RoleRegions:
    """Held-out regions of one contig by (holdout, split): merged intervals, and keys of alleles (``allele_keys``)."""

    intervals: Mapping[tuple[str, Split], IntervalArray]
    #: Reference spans ``[pos - 1, pos - 1 + len(ref))`` of held-out alleles, for holdouts without intervals only.
    alleles: Mapping[tuple[str, Split], IntervalArray]
    keys: Mapping[tuple[str, Split], pa.Array]


@dataclass(frozen=True, slots=True)
class WindowSplit:
    """Windows of a contig that training excludes, and rows of all candidates of evaluation by (holdout, split)."""

    #: bool, shape (n_windows,).
    held_out: Bools
    #: int64, shape (n_candidates,), ascending; ``choose_windows`` reduces them to the size of the validation split.
    evaluation: Mapping[tuple[str, Split], Int64s]


def find_regions(contig: str, intervals: pa.Table, alleles: pa.Table) -> RoleRegions:
    """Collect the held-out intervals and alleles of one contig from the holdout tables."""
    with_intervals = set(pc.unique(intervals["holdout"]).to_pylist())
    ours = intervals.filter(pc.equal(intervals["contig"], contig))
    listed = alleles.select(["holdout", "role", *ALLELE_KEY]).filter(pc.equal(alleles["chrom"], contig))
    by_role = dict(_by_role(listed))
    return RoleRegions(
        intervals={
            key: IntervalArray.from_unsorted(rows["start"].to_numpy(), rows["end"].to_numpy()).merge()
            for key, rows in _by_role(ours)
        },
        alleles={
            key: IntervalArray.from_unsorted(*allele_spans(rows))
            for key, rows in by_role.items()
            if key[0] not in with_intervals
        },
        keys={key: allele_keys(rows) for key, rows in by_role.items()},
    )


def split_windows(
    contig: str, windows: pa.Table, *, margin_bp: int, regions: RoleRegions, holdouts: HoldoutIndex
) -> WindowSplit:
    """Divide a contig's windows, sorted by start; validation uses none that overlaps a test interval of any holdout."""
    start, end = windows["start"].to_numpy(), windows["end"].to_numpy()
    footprints = IntervalArray(start, end + margin_bp)
    met = {key: meets(region, footprints.start, footprints.end) for key, region in regions.intervals.items()}
    excluded = holdouts.window_is_held_out(contig, footprints), holdouts.window_is_similar(contig, start)
    held_out = np.logical_or.reduce([*excluded, *met.values()])
    met |= {key: _contains_allele(start, end, spans) for key, spans in regions.alleles.items()}
    tested = _in_test(met, set(regions.intervals), len(start))
    return WindowSplit(
        held_out=held_out,
        evaluation={
            (holdout, split): np.flatnonzero(mask & ~tested if split is Split.VALIDATION else mask).astype(np.int64)
            for (holdout, split), mask in met.items()
        },
    )


def split_alleles(
    table: pa.Table, regions: RoleRegions, holdouts: HoldoutIndex
) -> dict[str | None, dict[Split, Bools]]:
    """Return masks, bool of shape (n_rows,), of a contig's alleles by holdout and split; train's is under None."""
    keys, (start, end) = allele_keys(table), allele_spans(table)
    met: dict[tuple[str, Split], Bools] = {}
    for key in {**regions.intervals, **regions.keys}:
        region, listed = regions.intervals.get(key), regions.keys.get(key)
        mask = np.zeros(len(keys), bool) if region is None else meets(region, start, end)
        if listed is not None:
            mask |= as_bools(pc.is_in(keys, value_set=listed))
        met[key] = mask
    held_out = np.logical_or.reduce([holdouts.allele_is_held_out(table), *met.values()])
    tested = _in_test(met, set(met), len(keys))
    masks: dict[str | None, dict[Split, Bools]] = {None: {Split.TRAIN: ~held_out}}
    for (holdout, split), mask in met.items():
        masks.setdefault(holdout, {})[split] = mask & ~tested if split is Split.VALIDATION else mask
    return masks


def choose_windows(
    candidates: Mapping[str, Int64s], starts: Mapping[str, Int64s], *, holdout: str, limit: int, seed: int
) -> dict[str, Int64s]:
    """Choose the rows, by contig, of at most ``limit`` windows by hash; a smaller one gives a subset of a larger."""
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


def _in_test(met: Mapping[tuple[str, Split], Bools], keys: set[tuple[str, Split]], n: int) -> Bools:
    masks = [mask for key, mask in met.items() if key in keys and key[1] is Split.TEST]
    tested: Bools = np.logical_or.reduce([np.zeros(n, bool), *masks])
    return tested


def _contains_allele(start: Int64s, end: Int64s, alleles: IntervalArray) -> Bools:
    """Tell which sorted windows of one size contain an allele outside their insets, where it can be an edit."""
    first = np.searchsorted(end - INSET_BP, alleles.end, side="left")
    last = np.searchsorted(start + INSET_BP, alleles.start, side="right")
    found, steps = last > first, np.zeros(len(start) + 1, np.int64)
    np.add.at(steps, first[found], 1)
    np.add.at(steps, last[found], -1)
    held: Bools = np.cumsum(steps)[:-1] > 0
    return held
