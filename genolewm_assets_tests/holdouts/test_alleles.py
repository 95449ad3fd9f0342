from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.genome import Holdout, Interval, Split
from genolewm_assets.holdouts.alleles import find_newly_labelled, list_in_genes, list_newly_labelled
from genolewm_assets.holdouts.gene_components import GeneComponents, find_gene_components
from genolewm_assets.holdouts.held_intervals import HeldInterval, HeldIntervals, hold_genes
from genolewm_assets.holdouts.policy import HoldoutPolicy
from genolewm_assets.holdouts.schema import HOLDOUT_ALLELES, IntervalReason
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.lewm.holdout_world import CONTIGS, Row, allele, clinvar

LENGTHS = {contig.name: contig.length for contig in CONTIGS}


def test_bench_is_labelled_with_stars_and_of_the_gene() -> None:
    rows = [
        *(allele(5_000, ["A:1"], "P"), allele(5_001, ["A:1"], "LB", stars=4), allele(5_002, ["A:1"], "P", stars=0)),
        *(allele(5_003, ["A:1"], "VUS"), allele(5_004, ["A:1"], "OTHER"), allele(5_005, ["LOC2:2", "A:1"], "B")),
        *(allele(5_006, [], "P"), allele(6_100, [], "LP"), allele(90_000, ["C:3"], "P"), allele(95_000, [], "P")),
    ]
    components = find_gene_components([clinvar(rows)], reach_bp=1_200)
    held = HeldIntervals(hold_genes(HoldoutPolicy(clinvar_genes=("A",)), components, LENGTHS, 1_200))
    found = list_in_genes(clinvar(rows), "chr17", held, components, min_stars=1)
    expected = dict.fromkeys((5_000, 5_001, 5_005), "bench") | dict.fromkeys((5_002, 5_003, 5_004), "of_gene")
    expected |= {5_006: "in_span", 6_100: "in_span"}
    assert dict(zip(found["pos"].to_pylist(), found["reason"].to_pylist(), strict=True)) == expected
    assert set(found["unit"].to_pylist()) == {"gene:1"}
    assert found["stars"].to_pylist()[1] == 4
    assert found["gene_ids"].to_pylist()[5] == [2, 1]


def test_allele_between_two_held_out_genes_stays_with_its_own() -> None:
    rows = [allele(5_000, ["A:1"]), allele(7_000, ["B:2"])]
    components = find_gene_components([clinvar(rows)], reach_bp=1_200)
    assert len(components) == 2
    held = HeldIntervals(hold_genes(HoldoutPolicy(clinvar_gene_fraction=1), components, LENGTHS, 2_400))
    found = list_in_genes(clinvar(rows), "chr17", held, components, min_stars=1)
    assert found["unit"].to_pylist() == ["gene:1", "gene:2"]


EARLIER = [allele(pos, label=label) for pos, label in ((10, "VUS"), (30, "OTHER"), (40, "B"), (50, "VUS"))]
EARLIER.append(allele(20, label="P", stars=0))
LATER = [
    *(allele(10, label="P"), allele(20, label="B"), allele(30, label="LB", stars=0), allele(40, label="VUS")),
    *(allele(50, label="OTHER"), allele(60, label="LP"), allele(70, label="VUS"), allele(10, label="P", ref="AT")),
]


def test_newly_labelled_are_those_without_a_label_before() -> None:
    later = clinvar(LATER)
    newly, is_new = find_newly_labelled(later, clinvar(EARLIER))
    keys = [(row["pos"], row["ref"]) for row in later.to_pylist()]
    assert {key for key, yes in zip(keys, newly, strict=True) if yes} == {(10, "A"), (10, "AT"), (30, "A"), (60, "A")}
    assert {key for key, yes in zip(keys, is_new, strict=True) if yes} == {(10, "AT"), (60, "A"), (70, "A")}


def temporal(later: dict[str, list[Row]], held: list[HeldInterval]) -> dict[tuple[str, int], tuple[str, str, str]]:
    tables = {contig: clinvar(rows) for contig, rows in later.items()}
    components = find_gene_components(tables.values(), reach_bp=1_200)
    found = list_newly_labelled(
        tables, {"chr17": clinvar(EARLIER)}, HeldIntervals(held), components, HoldoutPolicy(min_stars=1)
    )
    HOLDOUT_ALLELES.check(found.schema, where="test")
    assert set(found["holdout"].to_pylist()) == {"holdout-temporal"}
    keys = zip(found["chrom"].to_pylist(), found["pos"].to_pylist(), strict=True)
    return dict(zip(keys, zip(*(found[n].to_pylist() for n in ("reason", "unit", "role")), strict=True), strict=True))


def test_a_first_label_in_one_gene_moves_no_other_gene() -> None:
    """Two genes, of which the second gets its first label a release later: the roles of the first do not change."""
    unlabelled = [allele(20_000, ["G1:1"], "VUS"), allele(60_000, ["G2:2"], "VUS")]
    one = [allele(20_000, ["G1:1"], "P"), unlabelled[1]]
    both = [one[0], allele(60_000, ["G2:2"], "P")]
    components = find_gene_components([clinvar(both)], reach_bp=1_200)
    moved, roles = [], set()
    for seed in range(40):
        policy = HoldoutPolicy(seed=seed)
        before, after = (
            list_newly_labelled(
                {"chr17": clinvar(rows)}, {"chr17": clinvar(unlabelled)}, HeldIntervals(), components, policy
            ).to_pylist()
            for rows in (one, both)
        )
        moved += [seed] if before[0]["role"] != after[0]["role"] else []
        roles |= {tuple(row["role"] for row in after)}
    assert moved == []
    # Both roles are filled where two genes can.
    assert roles == {("validation", "test"), ("test", "validation")}


def test_stars_are_needed_and_sides_are_taken_from_the_largest_unit() -> None:
    later = {
        "chr17": [
            allele(10, label="P"),
            allele(30, label="P", stars=0),
            *(allele(20_000 + 5_000 * n, [f"G{n}:{n}"]) for n in range(8)),
            allele(20_001, ["G0:0"], stars=2),
            allele(90_000, ["H:99"]),
        ],
        "chr20": [allele(10, chrom="chr20", stars=3)],
    }
    held = [
        HeldInterval(
            Holdout.CLINVAR, Split.TEST, "chr17", 89_000, 91_000, "gene:99", "H", IntervalReason.GENE_COMPONENT
        )
    ]
    found = temporal(later, held)
    assert ("chr17", 30) not in found
    assert found["chr17", 10][:2] == ("became_labelled", "chr17")
    assert found["chr20", 10][:2] == ("new", "chr20")
    assert found["chr17", 90_000] == ("new", "gene:99", "test")
    assert found["chr17", 20_000] == found["chr17", 20_001]
    assert found["chr17", 20_000][1] == "gene:0"
    assert {role for _, _, role in found.values()} == {"validation", "test"}


REACH = 100


def components(rows: list[Row]) -> GeneComponents:
    return find_gene_components([clinvar(rows)], reach_bp=REACH)


def groups(found: GeneComponents) -> list[list[str]]:
    return [sorted(component.genes) for component in found]


@each_row(("gap", "together"), [(-5, True), (0, True), (99, True), (100, False), (101, False)])
def test_neighbours_within_a_footprint_belong_together(gap: int, together: bool) -> None:
    # The first gene ends before base 210 (0-based), the second starts `gap` bases further on.
    rows = [allele(200, ["A:1"], ref="A" * 11), allele(211 + gap, ["B:2"]), allele(500, ["B:2"])]
    assert groups(components(rows)) == ([["1", "2"]] if together else [["1"], ["2"]])


def test_loc_element_inherits_however_far_it_lies() -> None:
    rows = [allele(1, ["A:7", "LOC5:5"]), allele(3_000, ["LOC5:5"]), allele(9_000, ["LOC9:9"])]
    first, second = components(rows)
    assert (first.id, first.symbols, first.genes) == ("gene:7", ("A",), {"5", "7"})
    assert first.spans == (Interval("chr17", 0, 3_000),)
    assert (second.id, second.symbols) == ("gene:9", ("LOC9",))


def test_gene_on_two_contigs_is_one_unit() -> None:
    rows = [allele(10, ["P:1"], chrom="chrX"), allele(20, ["P:1"], chrom="chrY"), allele(50, ["Q:2"], chrom="chrY")]
    (component,) = components(rows)
    assert component.spans == (Interval("chrX", 9, 10), Interval("chrY", 19, 50))


def test_gene_without_an_id_goes_by_its_symbol() -> None:
    found = components([allele(10, ["MT-TF"]), allele(5_000, ["B:2"])])
    assert groups(found) == [["symbol:MT-TF"], ["2"]]
    assert found.named(["MT-TF"]) == {0}


def test_alleles_and_names_lead_to_components() -> None:
    rows = [allele(10, ["A:1"]), allele(5_000, ["B:2", "LOC3:3"]), allele(9_000), allele(12_000, ["LOC3:3"])]
    found = components(rows)
    assert found.of_alleles(clinvar(rows)).tolist() == [0, 1, -1, 1]
    assert found.of_alleles(clinvar([allele(1, ["NEW:99"])])).tolist() == [-1]
    assert found.named(["A", "3"]) == {0, 1}
    with pytest.raises(ConfigurationError, match="'BRCA1'"):
        found.named(["A", "BRCA1"])


GENES = st.lists(st.integers(1, 8), max_size=3, unique=True)
ALLELES = st.lists(st.tuples(st.integers(1, 1_500), GENES), max_size=25, unique_by=lambda row: row[0])


@given(ALLELES)
def test_equal_to_a_quadratic_referee(drawn: list[tuple[int, list[int]]]) -> None:
    rows = [allele(pos, [f"G{gene}:{gene}" for gene in genes]) for pos, genes in drawn]
    places = {gene: [pos for pos, genes in drawn if gene in genes] for gene in range(1, 9)}
    places = {gene: at for gene, at in places.items() if at}

    def linked(one: int, other: int) -> bool:
        named_together = any({one, other} <= set(genes) for _, genes in drawn)
        # From the last base of the one that ends first to the first base of the other.
        gap = max(min(places[one]), min(places[other])) - min(max(places[one]), max(places[other])) - 1
        return named_together or gap < REACH

    left, expected = set(places), []
    while left:
        group = {min(left)}
        while more := {g for g in left - group if any(linked(g, other) for other in group)}:
            group |= more
        expected.append(sorted(map(str, group)))
        left -= group
    found = components(rows)
    assert sorted(groups(found)) == sorted(expected)
    for component in found:
        at = [pos for gene in component.genes for pos in places[int(gene)]]
        assert component.spans == (Interval("chr17", min(at) - 1, max(at)),)
        assert component.id == f"gene:{min(map(int, component.genes))}"
