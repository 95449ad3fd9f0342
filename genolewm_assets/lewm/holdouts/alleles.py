"""Lists held-out alleles, with the reason and the side of each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.genome import DECIDED, Split
from genolewm_assets.lewm.holdouts.gene_components import GeneComponents
from genolewm_assets.lewm.holdouts.policy import HoldoutPolicy
from genolewm_assets.lewm.holdouts.schema import HOLDOUT_ALLELES, AlleleReason, Holdout, VariantOrigin
from genolewm_assets.lewm.holdouts.stretches import HeldStretches
from genolewm_assets.variants import ALLELE_KEY, Bools, Int64s, allele_keys, allele_spans, as_bools

#: Columns of a ClinVar table that are read here.
CLINVAR_COLUMNS = (*ALLELE_KEY, "label", "stars", "clinvar_id", "gene_symbols", "gene_ids")


def list_in_stretches(
    table: pa.Table, origin: VariantOrigin, contig: str, holdout: Holdout, stretches: HeldStretches
) -> pa.Table:
    """List the alleles of one contig that lie in the stretches of one holdout; schema ``HOLDOUT_ALLELES``."""
    met = stretches.find(holdout, contig, *allele_spans(table))
    rows = np.flatnonzero(met >= 0)
    held = stretches.of(holdout, contig)
    fates = [(held[i].role, held[i].unit, AlleleReason.IN_SPAN) for i in met[rows].tolist()]
    return _rows(table, rows, origin, holdout, fates)


def list_in_genes(
    clinvar: pa.Table, contig: str, stretches: HeldStretches, components: GeneComponents, *, min_stars: int
) -> pa.Table:
    """List the ClinVar alleles of one contig that name a held-out gene or lie in its stretch.

    Parameters
    ----------
    clinvar
        With :data:`CLINVAR_COLUMNS`.
    min_stars
        Review stars that a P, LP, B or LB allele of the gene needs to be measured on.

    Returns
    -------
    pyarrow.Table
        Schema ``HOLDOUT_ALLELES``.
    """
    held = stretches.of(Holdout.CLINVAR, contig)
    index = {stretch.unit: i for i, stretch in enumerate(held)}
    own_stretch = np.array([*(index.get(component.id, -1) for component in components), -1], dtype=np.int64)
    own = own_stretch[components.of_alleles(clinvar)]
    met = np.where(own >= 0, own, stretches.find(Holdout.CLINVAR, contig, *allele_spans(clinvar)))
    rows = np.flatnonzero(met >= 0)
    bench = (is_labelled(clinvar) & (clinvar["stars"].to_numpy() >= min_stars))[rows]
    reasons = np.where(own[rows] < 0, AlleleReason.IN_SPAN, np.where(bench, AlleleReason.BENCH, AlleleReason.OF_GENE))
    fates = [(held[i].role, held[i].unit, why) for i, why in zip(met[rows].tolist(), reasons.tolist(), strict=True)]
    return _rows(clinvar, rows, VariantOrigin.CLINVAR, Holdout.CLINVAR, fates)


def find_newly_labelled(later: pa.Table, earlier: pa.Table) -> tuple[Bools, Bools]:
    """Find the alleles with a P, LP, B or LB label at the later release that have none at the earlier.

    Returns
    -------
    tuple of ndarray
        bool, shape (n_later,): is newly labelled; is not in the earlier release at all.
    """
    keys, known = allele_keys(later), allele_keys(earlier)
    labelled = known.filter(pa.array(is_labelled(earlier)))
    newly = is_labelled(later) & ~as_bools(pc.is_in(keys, value_set=labelled))
    return newly, ~as_bools(pc.is_in(keys, value_set=known))


def list_newly_labelled(
    later: dict[str, pa.Table],
    earlier: dict[str, pa.Table],
    stretches: HeldStretches,
    components: GeneComponents,
    policy: HoldoutPolicy,
) -> pa.Table:
    """List the newly labelled alleles with enough stars; tables by contig, with :data:`CLINVAR_COLUMNS`.

    Notes
    -----
    An allele takes the side of the stretch it lies in; else that of its gene component; else that of its contig.
    """
    chosen: list[tuple[pa.Table, Int64s, list[tuple[Split | None, str, AlleleReason]]]] = []
    for contig, table in later.items():
        newly, is_new = find_newly_labelled(table, earlier.get(contig, table.slice(0, 0)))
        rows = np.flatnonzero(newly & (table["stars"].to_numpy() >= policy.min_stars))
        home = components.of_alleles(table)
        met = stretches.find_largest(contig, *(bounds[rows] for bounds in allele_spans(table)))
        fates: list[tuple[Split | None, str, AlleleReason]] = []
        for row, stretch in zip(rows.tolist(), met, strict=True):
            unit = components[home[row]].id if home[row] >= 0 else contig
            side = (None, unit) if stretch is None else (stretch.role, stretch.unit)
            fates.append((*side, AlleleReason.NEW if is_new[row] else AlleleReason.BECAME_LABELLED))
        chosen.append((table, rows, fates))
    free = policy.divide(unit for _, _, fates in chosen for role, unit, _ in fates if role is None)
    parts = [
        _rows(
            table,
            rows,
            VariantOrigin.CLINVAR,
            Holdout.TEMPORAL,
            [(role or free[unit], unit, why) for role, unit, why in fates],
        )
        for table, rows, fates in chosen
    ]
    return pa.concat_tables([HOLDOUT_ALLELES.empty(), *parts])


def is_labelled(clinvar: pa.Table) -> Bools:
    """Tell which alleles have a class that is measured: bool, shape (n_rows,)."""
    return as_bools(pc.is_in(clinvar["label"], value_set=pa.array(DECIDED)))


def _rows(
    table: pa.Table,
    rows: Int64s,
    origin: VariantOrigin,
    holdout: Holdout,
    fates: Sequence[tuple[Split, str, AlleleReason]],
) -> pa.Table:
    """Return some rows of an allele table in the schema of the held-out ones; ``fates`` are role, unit and reason."""
    n = len(rows)
    taken = table.take(pa.array(rows, pa.int64()))
    given: dict[str, pa.Array] = {
        "holdout": pa.array([str(holdout)] * n, pa.string()),
        "role": pa.array([str(role) for role, _, _ in fates], pa.string()),
        "source": pa.array([str(origin)] * n, pa.string()),
        "unit": pa.array([unit for _, unit, _ in fates], pa.string()),
        "reason": pa.array([str(reason) for _, _, reason in fates], pa.string()),
    }
    if origin is VariantOrigin.GNOMAD:
        fields = [HOLDOUT_ALLELES.arrow.field(name) for name in ("label", "stars", "clinvar_id")]
        given |= {field.name: pa.nulls(n, field.type) for field in fields}
        given["gene_ids"] = pa.array([[]] * n, pa.list_(pa.int64()))
    columns = [given[name] if name in given else taken[name] for name in HOLDOUT_ALLELES.columns]
    return pa.table(columns, schema=HOLDOUT_ALLELES.arrow)
