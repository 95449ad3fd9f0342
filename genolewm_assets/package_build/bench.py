"""Find the bench alleles of each holdout, the windows that show them, and the reason where none does.

A bench allele is a ClinVar allele of validation or test labelled P, LP, B or LB with the policy's review stars.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import groupby
from typing import get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.edits import AlleleIndex, EditPlace, EditRules, Redraw, SamplingRules, WindowRecord
from genolewm_assets.genome import DECIDED, EVALUATION, Bases, Holdout, LengthPolicy, Split
from genolewm_assets.holdouts import HoldoutIndex
from genolewm_assets.memory_mapped import closed_alleles
from genolewm_assets.package_build.emitting import indexed_window
from genolewm_assets.package_build.sources import PackageSources
from genolewm_assets.package_build.split import RoleRegions, WindowSplit, split_alleles
from genolewm_assets.packages import SCORED, Unscored, most_central_windows
from genolewm_assets.variants import Int64s, allele_spans, as_bools

#: Holdouts whose evaluation scores ClinVar alleles; that of haplotypes is about edits made together.
BENCH_HOLDOUTS: tuple[str, ...] = tuple(str(name) for name in Holdout if name is not Holdout.HAPLOTYPES)

_Key = tuple[str, Split]
_OUTCOME = pa.dictionary(pa.int8(), pa.string())


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """The bench of every holdout and split."""

    #: By contig and (holdout, split): text by dictionary, shape (n_rows of the contig's ClinVar table,): ``scored`` or
    #: the reason why no window shows the allele; null if the row is not of the bench.
    outcomes: Mapping[str, Mapping[_Key, pa.Array]] = field(default_factory=dict)
    #: By (holdout, split) and contig: row numbers of the windows that show an allele, int64, ascending.
    windows: Mapping[_Key, Mapping[str, Int64s]] = field(default_factory=dict)
    #: Number of alleles by holdout, split and outcome, such as ``scoring.holdout-chr.test.scored``.
    counts: Mapping[str, int] = field(default_factory=dict)

    def outcome(self, contig: str, holdout: str | None, split: Split, n_rows: int) -> pa.Array:
        """Return the outcome of each row of a contig's ClinVar table, shape (n_rows,); all null without one."""
        return self.outcomes.get(contig, {}).get((holdout or "", split), pa.nulls(n_rows, _OUTCOME))


def plan_bench(
    sources: PackageSources,
    regions: Mapping[str, RoleRegions],
    splits: Mapping[str, WindowSplit],
    holdouts: HoldoutIndex,
) -> BenchPlan:
    """Place every bench allele in the candidate of its holdout and split in which it is most central; make its edit."""
    makers = {split: _EditMaker(sources.alleles, split) for split in EVALUATION}
    outcomes: dict[str, dict[_Key, pa.Array]] = {}
    windows: dict[_Key, dict[str, Int64s]] = {}
    counts = Counter({f"scoring.{name}.{split}.{SCORED}": 0 for name in BENCH_HOLDOUTS for split in EVALUATION})
    for contig, table in sources.clinvar.items():
        if contig not in sources.windows:
            continue
        labelled = pc.is_in(table["label"], value_set=pa.array(DECIDED))
        qualifies = as_bools(pc.and_(labelled, pc.greater_equal(table["stars"], sources.policy.min_stars)))
        # The bases are read at the contig's first placed allele, and forgotten with the contig.
        ours = replace(sources, reference=cache(sources.reference))
        masks = split_alleles(table, regions[contig], holdouts)
        for key in ((name, split) for name in BENCH_HOLDOUTS for split in EVALUATION):
            rows = np.flatnonzero(masks.get(key[0], {}).get(key[1], np.zeros(len(qualifies), bool)) & qualifies)
            candidates = splits[contig].evaluation.get(key, np.zeros(0, np.int64))
            starts, ends = (sources.windows[contig][name].to_numpy()[candidates] for name in ("start", "end"))
            first, last = allele_spans(table)
            # -1 if no candidate contains the allele.
            placed = np.append(candidates, -1)[most_central_windows(starts, ends, first[rows], last[rows])]
            states = makers[key[1]].make(ours, contig, table, rows, placed)
            counts.update(f"scoring.{key[0]}.{key[1]}.{state}" for state in states)
            filled = np.full(len(qualifies), None, dtype=object)
            filled[rows] = states
            outcomes.setdefault(contig, {})[key] = pa.array(filled, _OUTCOME)
            shown = placed[np.array([state == SCORED for state in states], dtype=bool)]
            if len(shown):
                windows.setdefault(key, {})[contig] = np.unique(shown)
    return BenchPlan(outcomes, windows, dict(counts))


class _EditMaker:
    """Makes single edits under every length policy, so that the bench does not depend on a trainer's choice of one."""

    def __init__(self, held: pa.Table, split: Split) -> None:
        # No edit of validation may make a test allele; in a test every allele is allowed.
        index = AlleleIndex.of(closed_alleles(held, split))
        self._rules = [EditRules(SamplingRules(policy=policy), index) for policy in get_args(LengthPolicy)]

    def make(self, sources: PackageSources, contig: str, table: pa.Table, rows: Int64s, placed: Int64s) -> list[str]:
        """Return ``scored``, or the reason why not, for each allele row."""
        states = [str(Unscored.IN_NO_WINDOW)] * len(rows)
        alleles = table.select(["pos", "ref", "alt"]).take(pa.array(rows)).to_pylist()
        order = [int(at) for at in np.argsort(placed, kind="stable") if placed[at] >= 0]
        bases: Bases = sources.reference(contig) if order else b""
        for window, group in groupby(order, key=placed.__getitem__):
            start, end = (sources.windows[contig][name][int(window)].as_py() for name in ("start", "end"))
            record = indexed_window(contig, start, end, bases, sources.margin_bp)
            for at in group:
                states[at] = self._outcome(record, alleles[at])
        return states

    def _outcome(self, record: WindowRecord, allele: Mapping[str, object]) -> str:
        place, ref, alt = EditPlace(record), str(allele["ref"]), str(allele["alt"])
        edit = place.edit_of(int(str(allele["pos"])), ref, alt)
        if edit is None:
            return str(Unscored(Redraw.OTHER_REFERENCE.value))
        # The policy matters only to edits that change the length.
        rules = self._rules[:1] if len(ref) == len(alt) else self._rules
        made = (each.apply(place, (edit,), {record.sequence}, shown_at_locus=False) for each in rules)
        refused = next((each for each in made if isinstance(each, Redraw)), None)
        return SCORED if refused is None else str(Unscored(refused.value))
