"""Sides that an earlier release gave to genes, blocks and alleles; what it evaluated never trains in a later one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
        genes = ours["gene_ids"].combine_chunks()
        roles = ours["role"].combine_chunks().take(pc.list_parent_indices(genes))
        listed = pa.table([pc.cast(pc.list_flatten(genes), pa.string()), roles], ["gene", "role"])
        named = _roles(_different(listed.filter(pc.is_valid(listed["gene"]))))
        of_units = (pair for pair in self.of_units().items() if pair[0].startswith(GENE_UNIT))
        held = set(self.intervals["unit"].to_pylist())
        return _roles(
            [*named.items(), *((unit.removeprefix(GENE_UNIT), role) for unit, role in of_units if unit in held)]
        )

    def of_units(self) -> dict[str, Split]:
        """Return the role of each unit (contig, gene component or block), by its id; test before validation."""
        tables = (table.select(["unit", "role"]) for table in (self.intervals, self.alleles))
        return _roles(pair for table in tables for pair in _different(table))


#: Without an earlier release.
NOTHING_BEFORE = EarlierSides()


def _different(table: pa.Table) -> Iterator[tuple[str, str]]:
    """Yield the different rows of a table with two columns."""
    found = table.group_by(table.column_names).aggregate([])
    yield from zip(*(found[name].to_pylist() for name in table.column_names), strict=True)


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
) -> Iterator[pa.Table]:
    """Add what the earlier release lists (reason ``kept``, current labels), and give alleles the side it gave them."""
    if not earlier.alleles.num_rows:
        yield alleles
        return
    of_units = _roles(_different(intervals.select(["unit", "role"])))
    tested = pa.array([unit for unit, role in of_units.items() if role is Split.TEST], pa.string())
    contigs = pc.unique(pa.chunked_array([*alleles["chrom"].chunks, *earlier.alleles["chrom"].chunks], pa.string()))
    for contig in contigs.to_pylist():
        mine, theirs = (table.filter(pc.equal(table["chrom"], contig)) for table in (alleles, earlier.alleles))
        my_keys, their_keys = _row_keys(mine), _row_keys(theirs)
        missing = theirs.filter(pc.invert(pc.is_in(their_keys, value_set=my_keys)))
        yield _with_stricter_side(mine, theirs.take(pc.index_in(my_keys, value_set=their_keys)))
        yield _as_of(missing, clinvar.get(contig), tested)


def _with_stricter_side(alleles: pa.Table, before: pa.Table) -> pa.Table:
    """Return alleles with the side of ``before``, row by row, where they were in test and are in validation now."""
    was = pc.and_(pc.equal(before["role"], str(Split.TEST)), pc.equal(alleles["role"], str(Split.VALIDATION)))
    strict = pc.fill_null(was, fill_value=False)
    return _with_columns(alleles, {name: pc.if_else(strict, before[name], alleles[name]) for name in ("role", "unit")})


def _as_of(kept: pa.Table, clinvar: pa.Table | None, tested: pa.Array) -> pa.Table:
    """Return kept alleles with reason ``kept``, the stricter side, and the release's label and stars; null without."""
    ours, n = pc.equal(kept["source"], str(VariantOrigin.CLINVAR)), kept.num_rows
    columns = {"reason": pa.repeat(pa.scalar(str(AlleleReason.KEPT), pa.string()), n)}
    test = pc.or_(pc.equal(kept["role"], str(Split.TEST)), pc.is_in(kept["unit"], value_set=tested))
    columns["role"] = pc.if_else(test, str(Split.TEST), str(Split.VALIDATION))
    for name in ("label", "stars"):
        nothing = pa.nulls(n, kept.schema.field(name).type)
        if clinvar is None:
            columns[name] = nothing
        else:
            at = pc.index_in(allele_keys(kept), value_set=allele_keys(clinvar))
            columns[name] = pc.if_else(ours, clinvar[name].combine_chunks().take(at), nothing)
    return _with_columns(kept, columns)


def _with_columns(table: pa.Table, columns: Mapping[str, pa.Array]) -> pa.Table:
    for name, values in columns.items():
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(at), values)
    return table


def _row_keys(alleles: pa.Table) -> pa.Array:
    """Return one text per row: holdout, source and allele."""
    return join_columns(alleles["holdout"], alleles["source"], allele_keys(alleles))


def count_moves(own: Iterable[pa.Table], clinvar: Mapping[str, pa.Table], earlier: EarlierSides) -> dict[str, int]:
    """Count the alleles of both releases whose genes, or side without what is kept (``own``), differ."""
    counts = dict.fromkeys(("persisting", "to_training", "from_training", "genes_changed"), 0)
    sides = [pa.concat_tables(map(_of_clinvar, [HOLDOUT_ALLELES.empty(), *each])) for each in ([earlier.alleles], own)]
    for contig, table in clinvar.items():
        if contig not in earlier.clinvar:
            continue
        before, after = (with_genes(each.combine_chunks()) for each in (earlier.clinvar[contig], table))
        place = pc.index_in(allele_keys(after), value_set=allele_keys(before))
        both = after.filter(pc.is_valid(place))
        keys = allele_keys(both)
        held = (allele_keys(side.filter(pc.equal(side["chrom"], contig))) for side in sides)
        was, is_held = (as_bools(pc.is_in(keys, value_set=side)) for side in held)
        changed = as_bools(pc.not_equal(both["genes"], before["genes"].take(place.drop_null())))
        found = {"persisting": np.ones(len(keys), bool), "to_training": was & ~is_held, "from_training": is_held & ~was}
        for name, mask in (found | {"genes_changed": changed}).items():
            counts[name] += int(np.count_nonzero(mask))
    return {f"moves.{name}": n for name, n in counts.items()}


def _of_clinvar(alleles: pa.Table) -> pa.Table:
    """Return the keys of ClinVar alleles of holdouts but the temporal one, which takes new labels out by design."""
    ours = pc.and_(
        pc.not_equal(alleles["holdout"], str(Holdout.TEMPORAL)), pc.equal(alleles["source"], str(VariantOrigin.CLINVAR))
    )
    return alleles.select(ALLELE_KEY).filter(ours)
