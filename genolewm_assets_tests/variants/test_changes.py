"""Changes between two releases equal what a plain comparison of dicts finds."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import example, given

from genolewm_assets.genome import CLASSES
from genolewm_assets.variants.changes import COMPARED, find_changes, transitions
from genolewm_assets.variants.schema import CLINVAR_CHANGES
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.lewm.release_world import (
    CONTIGS,
    RELEASES,
    Allele,
    Entry,
    Release,
    allele_table,
    shard,
)


def plain_row(contig: str, allele: Allele, before: Entry | None, after: Entry | None) -> dict[str, object] | None:
    """Return the row of one allele from what each release says of it; None where both say the same."""
    both = before is not None and after is not None
    differs = {
        "text_changed": both and before.clnsig != after.clnsig,
        "class_changed": both and before.label != after.label,
        "id_changed": both and before.clinvar_id != after.clinvar_id,
        "stars_changed": both and before.stars != after.stars,
        "genes_changed": both and before.genes != after.genes,
    }
    if both and not any(differs.values()):
        return None
    genes = (after or before or Entry()).genes
    row: dict[str, object] = dict(zip(("chrom", "pos", "ref", "alt"), (contig, *allele), strict=True))
    for side, entry in (("from", before), ("to", after)):
        for name in ("clinvar_id", "label", "clnsig", "stars"):
            row[f"{name}_{side}"] = None if entry is None else getattr(entry, name)
        row[f"genes_{side}"] = None if entry is None else "|".join(str(len(gene)) for gene in entry.genes)
    change = "changed" if both else "added" if before is None else "removed"
    return {
        **row,
        "change": change,
        "gene_symbols": list(genes),
        "gene_ids": [len(gene) for gene in genes],
        **differs,
    }


def plain_changes(earlier: Release, later: Release, contig: str) -> list[dict[str, object]]:
    before, after = earlier.get(contig, {}), later.get(contig, {})
    rows = (plain_row(contig, allele, before.get(allele), after.get(allele)) for allele in sorted({*before, *after}))
    return [row for row in rows if row is not None]


def plain_counts(earlier: Release, later: Release, contig: str) -> Counter[str]:
    before, after = earlier.get(contig, {}), later.get(contig, {})
    counts = Counter({"alleles.earlier": len(before), "alleles.later": len(after)})
    for row in plain_changes(earlier, later, contig):
        counts[str(row["change"])] += 1
        counts.update(flag for flag in COMPARED.values() if row[flag])
    counts["persisting"] = len(before.keys() & after.keys())
    counts["unchanged"] = counts["persisting"] - counts["changed"]
    counts.update(f"class.{before[a].label}_to_{after[a].label}" for a in before.keys() & after.keys())
    counts.update(f"removed.{before[a].label}" for a in before.keys() - after.keys())
    counts.update(f"added.{after[a].label}" for a in after.keys() - before.keys())
    return counts


@given(RELEASES, RELEASES)
@example({}, {})
@example({}, {"chr17": {(8, "A", "C"): Entry()}})
@example({"chr17": {(8, "A", "C"): Entry()}}, {"chr20": {(8, "A", "C"): Entry()}})
@example({"chr17": {(8, "A", "C"): Entry(clnsig=None)}}, {"chr17": {(8, "A", "C"): Entry(clnsig="not_provided")}})
def test_changes_are_those_of_a_comparison_of_dicts(earlier: Release, later: Release) -> None:
    for contig in CONTIGS:
        table, counts = find_changes(shard(earlier, contig), shard(later, contig))
        assert table.schema == CLINVAR_CHANGES.arrow
        assert table.select(sorted(table.column_names)).to_pylist() == [
            dict(sorted(row.items())) for row in plain_changes(earlier, later, contig)
        ]
        expected = plain_counts(earlier, later, contig)
        assert {name: n for name, n in counts.items() if n} == {name: n for name, n in expected.items() if n}


@given(RELEASES, RELEASES)
def test_order_and_pieces_of_the_tables_do_not_matter(earlier: Release, later: Release) -> None:
    for contig in CONTIGS:
        before, after = shard(earlier, contig), shard(later, contig)
        whole = find_changes(before, after)
        rows = [after.slice(i, 1) for i in reversed(range(after.num_rows))]
        assert find_changes(before, pa.concat_tables([*rows, after.slice(0, 0)])) == whole


def test_a_release_against_itself_has_no_changes() -> None:
    table = allele_table("chr17", [((8, "A", "C"), Entry()), ((9, "A", "T"), Entry(clnsig=None))])
    changes, counts = find_changes(table, table)
    assert changes.num_rows == 0
    assert counts["persisting"] == counts["unchanged"] == 2


@each_row(
    ("before", "after", "flags"),
    [
        (Entry(), Entry(clnsig="Pathogenic|risk_factor"), {"text_changed"}),
        (Entry(), Entry(genes=("GENE4", "G")), {"genes_changed"}),
        (Entry(), Entry(clnsig="Likely_pathogenic"), {"text_changed", "class_changed"}),
        (Entry(clnsig=None), Entry(clnsig="drug_response"), {"text_changed"}),
        (Entry(), Entry(clinvar_id=7), {"id_changed"}),
        (Entry(), Entry(stars=2), {"stars_changed"}),
        (Entry(), Entry(genes=("SIM2",)), set()),
    ],
)
def test_each_flag_says_what_differs(before: Entry, after: Entry, flags: set[str]) -> None:
    changes, counts = find_changes(
        allele_table("chr17", [((8, "A", "C"), before)]), allele_table("chr17", [((8, "A", "C"), after)])
    )
    assert {flag for flag in COMPARED.values() if counts[flag]} == flags
    assert changes.num_rows == bool(flags)


def test_the_matrix_holds_every_allele_of_both_releases_once() -> None:
    earlier = allele_table(
        "chr17", [((8, "A", "C"), Entry()), ((9, "A", "C"), Entry()), ((10, "A", "C"), Entry(clnsig="Benign"))]
    )
    later = allele_table(
        "chr17", [((8, "A", "C"), Entry()), ((9, "A", "C"), Entry(clnsig=None)), ((11, "A", "C"), Entry())]
    )
    matrix = transitions(find_changes(earlier, later)[1])
    p, b, other, absent = (*map(CLASSES.index, ("P", "B", "OTHER")), len(CLASSES))
    expected = np.zeros((7, 7), dtype=np.int64)
    expected[p, p] = expected[p, other] = expected[b, absent] = expected[absent, p] = 1
    np.testing.assert_array_equal(matrix, expected)
