"""Sides that an earlier release gave to genes, blocks and alleles; what it evaluated never trains in a later one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.genome import Holdout, Split
from genolewm_assets.holdouts.gene_components import GENE_UNIT
from genolewm_assets.holdouts.schema import HOLDOUT_ALLELES, HOLDOUT_INTERVALS, AlleleReason, VariantOrigin
from genolewm_assets.variants import ALLELE_KEY, allele_keys, as_bools, join_columns, with_genes

#: Columns of the earlier release's ClinVar alleles that are read.
EARLIER_COLUMNS = (*ALLELE_KEY, "gene_ids")


@dataclass(frozen=True, slots=True)
class EarlierSides:
    """What an earlier release of the root holds out.

    Attributes
    ----------
    release
        Key of the earlier release.
    intervals, alleles
        Its holdout tables, schemas ``HOLDOUT_INTERVALS`` and ``HOLDOUT_ALLELES``. They include what it kept itself.
    clinvar
        Its ClinVar alleles by contig, with :data:`EARLIER_COLUMNS`.
    """

    release: str = ""
    intervals: pa.Table = field(default_factory=HOLDOUT_INTERVALS.empty)
    alleles: pa.Table = field(default_factory=HOLDOUT_ALLELES.empty)
    clinvar: Mapping[str, pa.Table] = field(default_factory=dict)

    def of_genes(self) -> dict[str, Split]:
        """Return the role of each held-out gene, by its GeneID as text; test before validation.

        The gene that names a component counts although the release names it for no allele.
        """
        ours = self.alleles.filter(
            pc.is_in(self.alleles["reason"], value_set=pa.array([AlleleReason.BENCH, AlleleReason.OF_GENE]))
        )
        pairs = zip(ours["role"].to_pylist(), ours["gene_ids"].to_pylist(), strict=True)
        named = _roles((str(gene), role) for role, genes in pairs for gene in genes if gene is not None)
        of_units = (pair for pair in self.of_units().items() if pair[0].startswith(GENE_UNIT))
        held = set(self.intervals["unit"].to_pylist())
        return _roles(
            [*named.items(), *((unit.removeprefix(GENE_UNIT), role) for unit, role in of_units if unit in held)]
        )

    def of_units(self) -> dict[str, Split]:
        """Return the role of each unit (contig, gene component or block), by its id; test before validation."""
        return _roles(
            pair
            for table in (self.intervals, self.alleles)
            for pair in zip(table["unit"].to_pylist(), table["role"].to_pylist(), strict=True)
        )


#: Without an earlier release.
NOTHING_BEFORE = EarlierSides()


def _roles(pairs: Iterable[tuple[str, str]]) -> dict[str, Split]:
    roles: dict[str, Split] = {}
    for unit, role in pairs:
        roles[unit] = strictest(Split(role), roles.get(unit, Split.VALIDATION))
    return roles


def strictest(*roles: Split) -> Split:
    """Return test if one of the roles is test, else validation: what was tested never guides training."""
    return Split.TEST if Split.TEST in roles else Split.VALIDATION


def keep_alleles(
    alleles: pa.Table, clinvar: Mapping[str, pa.Table], earlier: EarlierSides, intervals: pa.Table
) -> pa.Table:
    """Add what the earlier release lists (reason ``kept``, current labels), and give alleles the side it gave them."""
    if not earlier.alleles.num_rows:
        return alleles
    mine, theirs = _row_keys(alleles), _row_keys(earlier.alleles)
    missing = earlier.alleles.filter(pc.invert(pc.is_in(theirs, value_set=mine)))
    before = earlier.alleles.select(["role", "unit"]).to_pylist()
    sides = list(zip(alleles["role"].to_pylist(), alleles["unit"].to_pylist(), strict=True))
    for row, at in enumerate(pc.index_in(mine, value_set=theirs).to_pylist()):
        # A role that became stricter stays.
        if at is not None and (before[at]["role"], sides[row][0]) == (Split.TEST, Split.VALIDATION):
            sides[row] = before[at]["role"], before[at]["unit"]
    of_units = _roles(zip(intervals["unit"].to_pylist(), intervals["role"].to_pylist(), strict=True))
    sides += [
        (strictest(Split(role), of_units.get(unit, Split.VALIDATION)), unit)
        for role, unit in zip(missing["role"].to_pylist(), missing["unit"].to_pylist(), strict=True)
    ]
    both = pa.concat_tables([alleles, _as_of(missing, clinvar)])
    for name, values in zip(("role", "unit"), zip(*sides, strict=True), strict=True):
        column = both.schema.get_field_index(name)
        both = both.set_column(column, both.schema.field(column), pa.array(map(str, values), pa.string()))
    return both


def _as_of(kept: pa.Table, clinvar: Mapping[str, pa.Table]) -> pa.Table:
    """Return kept rows with reason ``kept``, and with the label and stars that the release gives; null without them."""
    said: dict[tuple[object, ...], tuple[object, ...]] = {}
    for contig in pc.unique(kept["chrom"]).to_pylist():
        if contig in clinvar:
            known = pc.is_in(allele_keys(clinvar[contig]), value_set=allele_keys(kept))
            columns = (clinvar[contig].filter(known)[name].to_pylist() for name in (*ALLELE_KEY, "label", "stars"))
            said |= {row[:4]: row[4:] for row in zip(*columns, strict=True)}
    rows = kept.to_pylist()
    for row in rows:
        found = said.get(tuple(row[name] for name in ALLELE_KEY)) if row["source"] == VariantOrigin.CLINVAR else None
        row["label"], row["stars"] = found or (None, None)
        row["reason"] = str(AlleleReason.KEPT)
    return pa.Table.from_pylist(rows, schema=HOLDOUT_ALLELES.arrow)


def _row_keys(alleles: pa.Table) -> pa.Array:
    """Return one text per row: holdout, source and allele."""
    joined = join_columns(alleles["holdout"], alleles["source"], allele_keys(alleles))
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined


def count_moves(own: pa.Table, clinvar: Mapping[str, pa.Table], earlier: EarlierSides) -> dict[str, int]:
    """Count the alleles of both releases whose side or genes differ, the later side being that of ``own`` alone.

    ``own`` are the alleles that the release holds out without keeping any. The temporal holdout, which takes new labels
    out of training by design, does not count.
    """
    counts = dict.fromkeys(("persisting", "to_training", "from_training", "genes_changed"), 0)
    sides = [_held_keys(table) for table in (earlier.alleles, own)]
    for contig, table in clinvar.items():
        if contig not in earlier.clinvar:
            continue
        before, after = (with_genes(each.combine_chunks()) for each in (earlier.clinvar[contig], table))
        place = pc.index_in(allele_keys(after), value_set=allele_keys(before))
        both = after.filter(pc.is_valid(place))
        keys = allele_keys(both)
        was, is_held = (as_bools(pc.is_in(keys, value_set=held)) for held in sides)
        changed = as_bools(pc.not_equal(both["genes"], before["genes"].take(place.drop_null())))
        found = {"persisting": np.ones(len(keys), bool), "to_training": was & ~is_held, "from_training": is_held & ~was}
        for name, mask in (found | {"genes_changed": changed}).items():
            counts[name] += int(np.count_nonzero(mask))
    return {f"moves.{name}": n for name, n in counts.items()}


def _held_keys(alleles: pa.Table) -> pa.Array:
    """Return the keys of ClinVar alleles that a holdout other than the temporal one lists."""
    ours = pc.and_(
        pc.not_equal(alleles["holdout"], str(Holdout.TEMPORAL)), pc.equal(alleles["source"], str(VariantOrigin.CLINVAR))
    )
    return allele_keys(alleles.filter(ours))
