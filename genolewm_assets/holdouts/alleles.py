"""List the held-out alleles with the role and the reason of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.genome import DECIDED, HARMFUL, Holdout, Split
from genolewm_assets.holdouts.gene_components import GeneComponents
from genolewm_assets.holdouts.held_intervals import HeldIntervals
from genolewm_assets.holdouts.policy import HoldoutPolicy
from genolewm_assets.holdouts.schema import HOLDOUT_ALLELES, AlleleReason, VariantOrigin
from genolewm_assets.variants import ALLELE_KEY, Bools, Int64s, allele_keys, allele_spans, as_bools

#: Columns of a ClinVar table that this module reads.
CLINVAR_COLUMNS = (*ALLELE_KEY, "label", "stars", "clinvar_id", "gene_symbols", "gene_ids")


def list_in_intervals(
    table: pa.Table, origin: VariantOrigin, contig: str, holdout: Holdout, intervals: HeldIntervals
) -> pa.Table:
    """List the alleles of one contig whose reference bases overlap an interval of one holdout."""
    met = intervals.find(holdout, contig, *allele_spans(table))
    rows = np.flatnonzero(met >= 0)
    held = intervals.of(holdout, contig)
    decisions = [(held[i].role, held[i].unit, AlleleReason.IN_SPAN) for i in met[rows].tolist()]
    return _rows(table, rows, origin, holdout, decisions)


def list_in_genes(
    clinvar: pa.Table, contig: str, intervals: HeldIntervals, components: GeneComponents, *, min_stars: int
) -> pa.Table:
    """List the ClinVar alleles of a contig, in their order, that name a held-out gene or overlap the interval of one.

    An allele that names a held-out gene takes the role of its own component.
    """
    held = intervals.of(Holdout.CLINVAR, contig)
    index = {interval.unit: i for i, interval in enumerate(held)}
    own_interval = np.array([*(index.get(component.id, -1) for component in components), -1], dtype=np.int64)
    own = own_interval[components.of_alleles(clinvar)]
    met = np.where(own >= 0, own, intervals.find(Holdout.CLINVAR, contig, *allele_spans(clinvar)))
    rows = np.flatnonzero(met >= 0)
    bench = (is_labelled(clinvar) & (clinvar["stars"].to_numpy() >= min_stars))[rows]
    reasons = np.where(own[rows] < 0, AlleleReason.IN_SPAN, np.where(bench, AlleleReason.BENCH, AlleleReason.OF_GENE))
    decisions = [(held[i].role, held[i].unit, why) for i, why in zip(met[rows].tolist(), reasons.tolist(), strict=True)]
    return _rows(clinvar, rows, VariantOrigin.CLINVAR, Holdout.CLINVAR, decisions)


def find_newly_labelled(later: pa.Table, earlier: pa.Table) -> tuple[Bools, Bools]:
    """Return which later alleles are newly labelled P, LP, B or LB, and which are new: bool, shape (n_later,) each."""
    keys, known = allele_keys(later), allele_keys(earlier)
    labelled = known.filter(pa.array(is_labelled(earlier)))
    newly = is_labelled(later) & ~as_bools(pc.is_in(keys, value_set=labelled))
    return newly, ~as_bools(pc.is_in(keys, value_set=known))


def list_newly_labelled(
    later: dict[str, pa.Table],
    earlier: dict[str, pa.Table],
    intervals: HeldIntervals,
    components: GeneComponents,
    policy: HoldoutPolicy,
    *,
    kept: Mapping[str, Split] = MappingProxyType({}),
) -> pa.Table:
    """List the newly labelled alleles with at least ``policy.min_stars`` review stars.

    An allele takes the role of a held-out interval that it overlaps, else the one by hash of its gene component or,
    without a gene, its contig. Units of all alleles outside the intervals are divided, so that a new label alone moves
    no unit.
    """
    chosen: list[tuple[pa.Table, Int64s, list[tuple[Split | None, str, AlleleReason]]]] = []
    for contig, table in later.items():
        newly, is_new = find_newly_labelled(table, earlier.get(contig, table.slice(0, 0)))
        rows = np.flatnonzero(newly & (table["stars"].to_numpy() >= policy.min_stars))
        component = components.of_alleles(table)
        met = intervals.find_largest(contig, *(bounds[rows] for bounds in allele_spans(table)))
        decisions: list[tuple[Split | None, str, AlleleReason]] = []
        for row, interval in zip(rows.tolist(), met, strict=True):
            unit = components[component[row]].id if component[row] >= 0 else contig
            role_and_unit = (None, unit) if interval is None else (interval.role, interval.unit)
            decisions.append((*role_and_unit, AlleleReason.NEW if is_new[row] else AlleleReason.BECAME_LABELLED))
        chosen.append((table, rows, decisions))
    free = policy.divide(unit for tables in (later, earlier) for unit in _free_units(tables, intervals, components))
    free |= {unit: kept[unit] for unit in free.keys() & kept.keys()}
    parts = [
        _rows(
            table,
            rows,
            VariantOrigin.CLINVAR,
            Holdout.TEMPORAL,
            [(role or free[unit], unit, why) for role, unit, why in decisions],
        )
        for table, rows, decisions in chosen
    ]
    return pa.concat_tables([HOLDOUT_ALLELES.empty(), *parts])


def _free_units(tables: dict[str, pa.Table], intervals: HeldIntervals, components: GeneComponents) -> Iterator[str]:
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


def _rows(
    table: pa.Table,
    rows: Int64s,
    origin: VariantOrigin,
    holdout: Holdout,
    decisions: Sequence[tuple[Split, str, AlleleReason]],
) -> pa.Table:
    """Return rows of an allele table in the schema ``HOLDOUT_ALLELES``, with role, unit and reason of each."""
    n = len(rows)
    taken = table.take(pa.array(rows, pa.int64()))
    given: dict[str, pa.Array] = {
        "holdout": pa.array([str(holdout)] * n, pa.string()),
        "role": pa.array([str(role) for role, _, _ in decisions], pa.string()),
        "source": pa.array([str(origin)] * n, pa.string()),
        "unit": pa.array([unit for _, unit, _ in decisions], pa.string()),
        "reason": pa.array([str(reason) for _, _, reason in decisions], pa.string()),
    }
    if origin is VariantOrigin.GNOMAD:
        fields = [HOLDOUT_ALLELES.arrow.field(name) for name in ("label", "stars", "clinvar_id")]
        given |= {field.name: pa.nulls(n, field.type) for field in fields}
        given["gene_ids"] = pa.array([[]] * n, pa.list_(pa.int64()))
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
