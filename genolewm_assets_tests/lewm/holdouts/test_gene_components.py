from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.genome import Interval
from genolewm_assets.lewm.holdouts.gene_components import GeneComponents, find_gene_components
from genolewm_assets_tests.worlds.lewm.holdout_world import Row, allele, clinvar

REACH = 100


def components(rows: list[Row]) -> GeneComponents:
    return find_gene_components([clinvar(rows)], reach_bp=REACH)


def groups(found: GeneComponents) -> list[list[str]]:
    return [sorted(component.genes) for component in found]


@pytest.mark.parametrize(("gap", "together"), [(-5, True), (0, True), (99, True), (100, False), (101, False)])
def test_neighbours_within_a_footprint_belong_together(gap: int, together: bool) -> None:
    # The first gene ends before base 210 (0-based), the second starts `gap` bases further on.
    rows = [allele(200, ["A:1"], ref="A" * 11), allele(211 + gap, ["B:2"]), allele(500, ["B:2"])]
    assert groups(components(rows)) == ([["1", "2"]] if together else [["1"], ["2"]])


def test_a_long_gene_reaches_over_a_short_one() -> None:
    rows = [allele(1, ["LONG:1"]), allele(200, ["SHORT:2"]), allele(1_000, ["LONG:1"]), allele(1_050, ["NEXT:3"])]
    assert groups(components(rows)) == [["1", "2", "3"]]


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


def test_releases_are_taken_together() -> None:
    tables = [clinvar([allele(10, ["A:1"])]), clinvar([allele(900, ["A:1"])]), clinvar([])]
    (component,) = find_gene_components(tables, reach_bp=REACH)
    assert component.spans == (Interval("chr17", 9, 900),)


def test_genes_of_one_table_s_end_and_the_next_one_s_start_stay_apart() -> None:
    tables = [clinvar([allele(10, ["A:1"])]), clinvar([allele(5_000, ["B:2"])])]
    assert groups(find_gene_components(tables, reach_bp=REACH)) == [["1"], ["2"]]


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


def test_every_gene_that_bore_a_symbol_is_named_by_it() -> None:
    assert components([allele(10, ["A:1"]), allele(5_000, ["A:2"])]).named(["A"]) == {0, 1}


def test_no_gene_at_all() -> None:
    assert len(components([allele(10)])) == len(components([])) == len(find_gene_components([], reach_bp=1)) == 0


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


def test_order_of_tables_does_not_matter() -> None:
    tables = [clinvar([allele(n * 90, [f"G{n}:{n}"])]) for n in range(1, 6)]
    forward = find_gene_components(tables, reach_bp=50)
    backward = find_gene_components(tables[::-1], reach_bp=50)
    assert list(forward) == list(backward)
    assert list(find_gene_components([pa.concat_tables(tables)], reach_bp=50)) == list(forward)
