"""List the held-out alleles with the role and the reason of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.genome import DECIDED, HARMFUL, Holdout, Split
from genolewm_assets.holdouts.gene_components import GeneComponents
from genolewm_assets.holdouts.held_intervals import HeldInterval, HeldIntervals
from genolewm_assets.holdouts.policy import HoldoutPolicy
from genolewm_assets.holdouts.schema import HOLDOUT_ALLELES, AlleleReason, VariantOrigin
from genolewm_assets.variants import ALLELE_KEY, Bools, Int64s, allele_keys, allele_spans, as_bools

#: Role, unit and reason of each allele: string, shape (n_rows,) each.
_Decisions: TypeAlias = tuple[pa.Array, pa.Array, pa.Array]

#: Columns of a ClinVar table that this module reads.
CLINVAR_COLUMNS = (*ALLELE_KEY, "label", "stars", "clinvar_id", "gene_symbols", "gene_ids")


def list_in_intervals(
    table: pa.Table, origin: VariantOrigin, contig: str, holdout: Holdout, intervals: HeldIntervals
) -> pa.Table:
    """List the alleles of one contig whose reference bases overlap an interval of one holdout."""
    met = intervals.find(holdout, contig, *allele_spans(table))
    rows = np.flatnonzero(met >= 0)
    role, unit = _sides(intervals.of(holdout, contig), met[rows])
    return _rows(table.take(pa.array(rows)), origin, holdout, (role, unit, _repeated(AlleleReason.IN_SPAN, len(rows))))


def list_in_genes(
    clinvar: pa.Table, contig: str, intervals: HeldIntervals, components: GeneComponents, *, min_stars: int
) -> pa.Table:
    """List the ClinVar alleles of a contig that name a held-out gene, whose role they take, or overlap its interval."""
    held = intervals.of(Holdout.CLINVAR, contig)
    index = {interval.unit: i for i, interval in enumerate(held)}
    own_interval = np.array([*(index.get(component.id, -1) for component in components), -1], dtype=np.int64)
    own = own_interval[components.of_alleles(clinvar)]
    met = np.where(own >= 0, own, intervals.find(Holdout.CLINVAR, contig, *allele_spans(clinvar)))
    rows = np.flatnonzero(met >= 0)
    ours = clinvar.take(pa.array(rows))
    bench = is_labelled(ours) & (ours["stars"].to_numpy() >= min_stars)
    codes = np.where(own[rows] < 0, 0, np.where(bench, 1, 2))
    reasons = pa.array([str(each) for each in (AlleleReason.IN_SPAN, AlleleReason.BENCH, AlleleReason.OF_GENE)])
    decisions = (*_sides(held, met[rows]), reasons.take(pa.array(codes)))
    return _rows(ours, VariantOrigin.CLINVAR, Holdout.CLINVAR, decisions)


def find_newly_labelled(later: pa.Table, earlier: pa.Table) -> tuple[Bools, Bools]:
    """Return which later alleles are newly labelled P, LP, B or LB, and which are new: bool, shape (n_later,) each."""
    keys, known = allele_keys(later), allele_keys(earlier)
    labelled = known.filter(pa.array(is_labelled(earlier)))
    newly = is_labelled(later) & ~as_bools(pc.is_in(keys, value_set=labelled))
    return newly, ~as_bools(pc.is_in(keys, value_set=known))


def list_newly_labelled(
    later: Mapping[str, pa.Table],
    earlier: Mapping[str, pa.Table],
    intervals: HeldIntervals,
    components: GeneComponents,
    policy: HoldoutPolicy,
    *,
    kept: Mapping[str, Split] = MappingProxyType({}),
) -> pa.Table:
    """List the newly labelled alleles with enough stars: roles of intervals that they overlap, else of their units."""
    chosen: list[tuple[pa.Table, _Decisions]] = []
    for contig, table in later.items():
        newly, is_new = find_newly_labelled(table, earlier.get(contig, table.slice(0, 0)))
        rows = np.flatnonzero(newly & (table["stars"].to_numpy() >= policy.min_stars))
        ours = table.take(pa.array(rows))
        met = intervals.find_largest(contig, *allele_spans(ours))
        # The last unit is of an allele without a gene.
        units = pa.array([*(component.id for component in components), contig], pa.string())
        own = units.take(pa.array(components.of_alleles(ours) % len(units)))
        role = pa.array([None if each is None else str(each.role) for each in met], pa.string())
        unit = pc.coalesce(pa.array([None if each is None else each.unit for each in met], pa.string()), own)
        reason = pc.if_else(pa.array(is_new[rows]), str(AlleleReason.NEW), str(AlleleReason.BECAME_LABELLED))
        chosen.append((ours, (role, unit, reason)))
    # Units of all alleles outside the intervals are divided, so that a new label alone moves no unit.
    free = policy.divide(unit for tables in (later, earlier) for unit in _free_units(tables, intervals, components))
    free |= {unit: kept[unit] for unit in free.keys() & kept.keys()}
    of_unit = pa.array(list(free), pa.string()), pa.array([str(role) for role in free.values()], pa.string())
    parts = [
        _rows(
            ours,
            VariantOrigin.CLINVAR,
            Holdout.TEMPORAL,
            (pc.coalesce(role, of_unit[1].take(pc.index_in(unit, value_set=of_unit[0]))), unit, reason),
        )
        for ours, (role, unit, reason) in chosen
    ]
    return pa.concat_tables([HOLDOUT_ALLELES.empty(), *parts])


def _free_units(tables: Mapping[str, pa.Table], intervals: HeldIntervals, components: GeneComponents) -> Iterator[str]:
    """Yield gene component, or contig without a gene, of the alleles that overlap no held-out interval."""
    for contig, table in tables.items():
        free = np.ones(table.num_rows, dtype=bool)
        for holdout in Holdout:
            free &= intervals.find(holdout, contig, *allele_spans(table)) < 0
        for component in np.unique(components.of_alleles(table)[free]).tolist():
            yield components[component].id if component >= 0 else contig


def is_labelled(clinvar: pa.Table) -> Bools:
    """Tell which alleles are labelled P, LP, B or LB: bool, shape (n_rows,)."""
    return as_bools(pc.is_in(clinvar["label"], value_set=pa.array(DECIDED)))


def _sides(held: Sequence[HeldInterval], met: Int64s) -> tuple[pa.Array, pa.Array]:
    """Return role and unit of the interval that each allele meets: string, shape (n_rows,) each."""
    at = pa.array(met)
    role, unit = (pa.array([str(getattr(each, name)) for each in held], pa.string()) for name in ("role", "unit"))
    return role.take(at), unit.take(at)


def _repeated(value: str, n: int) -> pa.Array:
    return pa.repeat(pa.scalar(str(value), pa.string()), n)


def _rows(taken: pa.Table, origin: VariantOrigin, holdout: Holdout, decisions: _Decisions) -> pa.Table:
    """Return alleles in the schema ``HOLDOUT_ALLELES``."""
    n = taken.num_rows
    given: dict[str, pa.Array] = dict(zip(("role", "unit", "reason"), decisions, strict=True))
    given |= {"holdout": _repeated(holdout, n), "source": _repeated(origin, n)}
    if origin is VariantOrigin.GNOMAD:
        fields = [HOLDOUT_ALLELES.arrow.field(name) for name in ("label", "stars", "clinvar_id")]
        given |= {field.name: pa.nulls(n, field.type) for field in fields}
        given["gene_ids"] = pa.ListArray.from_arrays(pa.array(np.zeros(n + 1, np.int32)), pa.array([], pa.int64()))
    columns = [given[name] if name in given else taken[name] for name in HOLDOUT_ALLELES.columns]
    return pa.table(columns, schema=HOLDOUT_ALLELES.arrow)


def count_new_labels(later: Mapping[str, pa.Table], earlier: Mapping[str, pa.Table]) -> Counter[str]:
    """Count newly labelled alleles with any number of review stars: ``new_labels.<reason>.<pathogenic|benign>``."""
    counts: Counter[str] = Counter()
    for contig, table in later.items():
        newly, is_new = find_newly_labelled(table, earlier.get(contig, table.slice(0, 0)))
        pathogenic = as_bools(pc.is_in(table["label"], value_set=pa.array(HARMFUL)))
        for reason, among in ((AlleleReason.BECAME_LABELLED, ~is_new), (AlleleReason.NEW, is_new)):
            for name, labels in (("pathogenic", pathogenic), ("benign", ~pathogenic)):
                counts[f"new_labels.{reason}.{name}"] += int(np.count_nonzero(newly & among & labels))
    return counts
