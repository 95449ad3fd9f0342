"""Bases that training windows share with evaluation windows and held-out intervals beside them.

A training window meets no held-out interval, but may overlap the rest of an evaluation window, and its left flank may
have held-out bases. ``holdouts.buffer: windows`` removes such windows, ``none`` keeps and counts them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.genome import NO_INTERVALS, IntervalArray, Split, meets
from genolewm_assets.holdouts import HOLDOUT_CORPUS, Buffer, is_first, merge_intervals
from genolewm_assets.packages import REFERENCE_ORIGIN
from genolewm_assets.variants import Bools, Int64s

#: Names of the counts: windows that share bases, and the most bases of one.
SHARED_WINDOWS, SHARED_MOST_BP = "shared.evaluation.windows", "shared.evaluation.most_bp"
FLANKS, FLANKS_MOST_BP = "shared.left_flank.windows", "shared.left_flank.most_bp"

#: Begin of the name of a count of windows outside of the holdouts, before their origin.
TRAINING_WINDOWS = "training_windows."


@dataclass(frozen=True, slots=True)
class Placed:
    """Placed windows of one contig."""

    contig: str
    #: ``start``, ``end``: 0-based half-open, int64, shape (n_windows,).
    start: Int64s
    end: Int64s
    #: Windows on strand ``-``, whose right flank is left of them: bool, shape (n_windows,).
    reverse: Bools

    @classmethod
    def of_reference(cls, contig: str, windows: pa.Table, rows: Int64s | None = None) -> Placed:
        """Return windows of a window index, or some of its rows."""
        start, end = (windows[name].to_numpy() for name in ("start", "end"))
        chosen = slice(None) if rows is None else rows
        return cls(contig, start[chosen], end[chosen], np.zeros(len(start[chosen]), bool))

    def emitted(self, margin_bp: int) -> IntervalArray:
        """Return the bases that each window can show: its own, and those of its right flank."""
        before, behind = margin_bp * self.reverse, margin_bp * ~self.reverse
        return IntervalArray.from_unsorted(np.maximum(0, self.start - before), self.end + behind)

    def left_flanks(self, margin_bp: int) -> IntervalArray:
        """Return the left flank of each window, which another ``length_policy`` shows."""
        start = np.where(self.reverse, self.end, self.start - margin_bp)
        return IntervalArray.from_unsorted(np.maximum(0, start), np.maximum(0, start + margin_bp))


@dataclass(slots=True)
class EvaluationBases:
    """The bases of evaluation windows and of held-out intervals, by contig."""

    windows: Mapping[str, pa.Table]
    #: By (holdout, split), then by contig. A holdout without intervals does not count: its windows train by design.
    evaluation: Mapping[tuple[str, Split], Mapping[str, Int64s]]
    intervals: pa.Table
    margin_bp: int
    #: What :meth:`measure` found so far, by name.
    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys((SHARED_WINDOWS, SHARED_MOST_BP, FLANKS, FLANKS_MOST_BP), 0)
    )
    _evaluated: dict[str, IntervalArray] = field(init=False)
    _held: dict[str, IntervalArray] = field(init=False)

    def __post_init__(self) -> None:
        """Merge the intervals of each contig."""
        of_intervals = set(pc.unique(self.intervals["holdout"]).to_pylist())
        spans: dict[str, list[IntervalArray]] = {contig: [] for contig in self.windows}
        for (holdout, _), by_contig in self.evaluation.items():
            for contig, rows in by_contig.items() if holdout in of_intervals else ():
                placed = Placed.of_reference(contig, self.windows[contig], rows)
                spans[contig].append(placed.emitted(self.margin_bp))
        self._evaluated = {contig: _union(parts) for contig, parts in spans.items()}
        self._held = merge_intervals(self.intervals)

    def beside(self, placed: Placed) -> Bools:
        """Tell which windows, flanks included, share a base with what is evaluated or held out: bool, (n_windows,)."""
        evaluated, held = self._of(placed.contig)
        start, end = placed.start - self.margin_bp, placed.end + self.margin_bp
        # The left flanks of the evaluation windows are not in their union.
        near: Bools = meets(evaluated, start, end + self.margin_bp) | meets(held, start, end)
        return near

    def holds(self, placed: Placed) -> Bools:
        """Tell which windows have a held-out base, their right flank included: bool, shape (n_windows,)."""
        return meets(self._of(placed.contig)[1], placed.start, placed.end + self.margin_bp)

    def measure(self, placed: Placed) -> None:
        """Count windows that share bases, as trainers see them by default, and left flanks; the audit measures both."""
        evaluated, held = self._of(placed.contig)
        shared = evaluated.overlap_bases(placed.emitted(self.margin_bp))
        flanks = held.overlap_bases(placed.left_flanks(self.margin_bp))
        for found, windows, most in ((shared, SHARED_WINDOWS, SHARED_MOST_BP), (flanks, FLANKS, FLANKS_MOST_BP)):
            self.counts[windows] += int(np.count_nonzero(found))
            self.counts[most] = max(self.counts[most], int(found.max(initial=0)))

    def _of(self, contig: str) -> tuple[IntervalArray, IntervalArray]:
        return self._evaluated.get(contig, NO_INTERVALS), self._held.get(contig, NO_INTERVALS)


def placed_corpus(batch: pa.Table) -> Iterable[tuple[Int64s, Placed]]:
    """Yield the rows of a corpus table with coordinates, exact or not, contig by contig."""
    known = pc.and_(pc.is_valid(batch["placed_contig"]), pc.is_valid(batch["placed_start"]))
    for contig in pc.unique(batch["placed_contig"].filter(known)).to_pylist():
        ours = pc.fill_null(pc.and_(known, pc.equal(batch["placed_contig"], contig)), False)
        rows, table = np.flatnonzero(ours.to_numpy(zero_copy_only=False)), batch.filter(ours)
        reverse = pc.fill_null(pc.equal(table["strand"], "-"), False).to_numpy(zero_copy_only=False)
        yield rows, Placed(contig, table["placed_start"].to_numpy(), table["placed_end"].to_numpy(), reverse)


def count_training_windows(
    windows: Mapping[str, pa.Table],
    corpus: Mapping[str, int],
    intervals: pa.Table,
    similar: pa.Table,
    excluded: pa.Table,
    *,
    margin_bp: int,
    buffer: str,
) -> dict[str, int]:
    """Count the windows that the holdouts leave for training, before a package is planned.

    All windows with a held-out base count as evaluated; corpus windows beside them are not looked for.

    Parameters
    ----------
    windows, corpus
        Window index by contig, and number of windows by corpus source.
    intervals, similar, excluded
        Schemas ``HOLDOUT_INTERVALS``, ``HOLDOUT_SIMILAR`` and ``HOLDOUT_CORPUS``, sorted by their keys.
    margin_bp
        Length of each flank of a window, in bases.
    buffer
        Value of ``Buffer``: whether windows beside evaluated ones are removed.

    Returns
    -------
    dict
        ``training_windows.<origin>``, by origin of the window.
    """
    firsts = pc.value_counts(excluded["source"].filter(pa.array(is_first(excluded, HOLDOUT_CORPUS.key[:-1]))))
    taken = {each["values"]: each["counts"] for each in firsts.to_pylist()}
    left = {name: n - taken.get(name, 0) for name, n in corpus.items()}
    placed = {contig: Placed.of_reference(contig, table) for contig, table in windows.items()}
    regions = EvaluationBases(windows, {}, intervals, margin_bp)
    held = {contig: regions.holds(one) for contig, one in placed.items()}
    if buffer == Buffer.WINDOWS:
        rows = {contig: np.flatnonzero(mask).astype(np.int64) for contig, mask in held.items()}
        holdouts = pc.unique(intervals["holdout"]).to_pylist()[:1]
        regions = EvaluationBases(windows, {(name, Split.TEST): rows for name in holdouts}, intervals, margin_bp)
        held = {contig: held[contig] | regions.beside(one) for contig, one in placed.items()}
    for contig, one in placed.items():
        held[contig] |= np.isin(one.start, similar["start"].filter(pc.equal(similar["contig"], contig)).to_numpy())
    left[REFERENCE_ORIGIN] = sum(int(np.count_nonzero(~one)) for one in held.values())
    return {f"{TRAINING_WINDOWS}{name}": n for name, n in sorted(left.items())}


def _union(parts: Iterable[IntervalArray]) -> IntervalArray:
    given = [NO_INTERVALS, *parts]
    start, end = (np.concatenate([getattr(part, name) for part in given]) for name in ("start", "end"))
    return IntervalArray.from_unsorted(start, end).merge()
