from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.genome import EVALUATION, Holdout, Interval, IntervalArray, Split, first_met, meets
from genolewm_assets.holdouts.gene_components import GeneComponents, find_gene_components
from genolewm_assets.holdouts.haplotype_blocks import HaplotypeBlock
from genolewm_assets.holdouts.held_intervals import (
    HeldInterval,
    HeldIntervals,
    hold_blocks,
    hold_contigs,
    hold_genes,
    settle_roles,
)
from genolewm_assets.holdouts.policy import HoldoutPolicy
from genolewm_assets.holdouts.schema import IntervalReason
from genolewm_assets_tests.worlds.lewm.holdout_world import CONTIGS, allele, clinvar

LENGTHS = {contig.name: contig.length for contig in CONTIGS}
WINDOW_BP = 1_200


def genes(*places: tuple[str, str, int, int]) -> GeneComponents:
    rows = [allele(pos, [name], chrom=contig) for name, contig, *ends in places for pos in ends]
    return find_gene_components([clinvar(rows)], reach_bp=WINDOW_BP)


def many_genes(n: int) -> GeneComponents:
    return genes(*((f"G{i}:{i}", "chr17", 1_000 + 5_000 * i, 2_000 + 5_000 * i) for i in range(n)))


def test_named_gene_takes_its_component_and_a_window_on_either_side() -> None:
    components = genes(("A:1", "chr17", 5_000, 6_000), ("B:2", "chr17", 6_500, 7_000), ("C:3", "chr17", 90_000, 91_000))
    (row,) = hold_genes(HoldoutPolicy(clinvar_genes=("B",)), components, LENGTHS, WINDOW_BP)
    assert (row.unit, row.name, row.start, row.end) == ("gene:1", "A,B", 4_999 - 1_200, 7_000 + 1_200)


@pytest.mark.parametrize(("ends", "span"), [((500, 600), (0, 1_800)), ((119_500, 119_900), (118_299, 120_000))])
def test_widening_stops_at_the_ends_of_the_contig(ends: tuple[int, int], span: tuple[int, int]) -> None:
    components = genes(("A:1", "chr21", *ends))
    (row,) = hold_genes(HoldoutPolicy(clinvar_genes=("1",)), components, LENGTHS, WINDOW_BP)
    assert (row.start, row.end) == span


def test_share_of_components_by_hash() -> None:
    components = many_genes(70)
    taken = {row.unit for row in hold_genes(HoldoutPolicy(), components, LENGTHS, WINDOW_BP)}
    assert 7 <= len(taken) <= 21
    # A gene's fate does not depend on which others there are.
    some = many_genes(35)
    assert {row.unit for row in hold_genes(HoldoutPolicy(), some, LENGTHS, WINDOW_BP)} == {
        component.id for component in some if component.id in taken
    }
    assert hold_genes(HoldoutPolicy(clinvar_genes=()), components, LENGTHS, WINDOW_BP) == []
    assert hold_genes(HoldoutPolicy(clinvar_gene_fraction=0), components, LENGTHS, WINDOW_BP) == []
    assert len(hold_genes(HoldoutPolicy(clinvar_gene_fraction=1), components, LENGTHS, WINDOW_BP)) == 70


def test_genes_and_blocks_take_the_side_of_what_they_lie_in() -> None:
    policy = HoldoutPolicy(clinvar_gene_fraction=1)
    places = [(f"G{i}:{i}", ("chr17", "chr20", "chr21")[i % 3], 5_000 * i, 5_000 * i + 1_000) for i in range(1, 24)]
    contigs = hold_contigs(policy, LENGTHS)
    held = hold_genes(policy, genes(*places), LENGTHS, WINDOW_BP, contigs=HeldIntervals(contigs))
    assert {row.role for row in held if row.contig == "chr20"} == {Split.VALIDATION}
    assert {row.role for row in held if row.contig == "chr21"} == {Split.TEST}
    assert {row.role for row in held if row.contig == "chr17"} == set(EVALUATION)
    larger = HeldIntervals([*contigs, *held])
    blocks = [
        HaplotypeBlock(f"{row.unit} block", Interval(row.contig, row.end - 1, row.end + 50), (0, 1)) for row in held
    ]
    assert [row.role for row in hold_blocks(policy, blocks, larger)] == [row.role for row in held]
    free = [
        HaplotypeBlock(f"b{n}", Interval("chr17", 300_000 + 10 * n, 300_010 + 10 * n), (0, 1), phased=True)
        for n in range(9)
    ]
    found = hold_blocks(policy, free, larger)
    assert {row.role for row in found} == set(EVALUATION)
    assert {row.reason for row in found} == {IntervalReason.PHASED_BLOCK}


def pairs_of_one_holdout(held: list[HeldInterval]) -> list[tuple[HeldInterval, HeldInterval]]:
    return [
        (one, other)
        for one in held
        for other in held
        if one.unit < other.unit
        and one.contig == other.contig
        and max(one.start, other.start) < min(one.end, other.end)
    ]


@pytest.mark.parametrize("gap_bp", [WINDOW_BP + 100, 2 * WINDOW_BP, 2 * WINDOW_BP + 1])
def test_components_that_overlap_once_they_are_extended_have_one_role(gap_bp: int) -> None:
    places = [(f"G{n}:{n}", "chr17", (50 + gap_bp) * n + 3_000, (50 + gap_bp) * n + 3_050) for n in range(1, 120)]
    # In pairs, each far from the next.
    places = [place for n, place in enumerate(places) if n % 4 < 2]
    held = hold_genes(HoldoutPolicy(clinvar_gene_fraction=1), genes(*places), {"chr17": 10**7}, WINDOW_BP)
    met = pairs_of_one_holdout(held)
    assert len(met) == (0 if gap_bp > 2 * WINDOW_BP else 30)
    assert not met or any(one.role != other.role for one, other in met)
    settled = settle_roles(held, {})
    assert [(row.unit, row.start, row.end) for row in settled] == [(row.unit, row.start, row.end) for row in held]
    assert all(one.role == other.role for one, other in pairs_of_one_holdout(settled))
    assert {row.role for row in settled} == set(EVALUATION)
    # Who had a role before keeps it, and who overlaps it takes it over; of two the stricter one counts.
    for one, other in met:
        for kept in ({one.unit: Split.VALIDATION}, {one.unit: Split.VALIDATION, other.unit: Split.TEST}):
            role = Split.VALIDATION if len(kept) == 1 else Split.TEST
            assert {row.role for row in settle_roles(held, kept) if row.unit in (one.unit, other.unit)} == {role}


def test_overlapping_blocks_have_one_role() -> None:
    policy, none = HoldoutPolicy(), HeldIntervals()
    spans = [(10 * n, 10 * n + 11 - (n % 5 == 4)) for n in range(200)]
    blocks = [HaplotypeBlock(f"b{start}", Interval("chr17", start, end), (0, 1), phased=True) for start, end in spans]
    found = hold_blocks(policy, blocks[::-1], none)
    assert [row.unit for row in found] == [block.id for block in blocks[::-1]]
    roles = [row.role for row in found[::-1]]
    # Five blocks overlap in a chain, and the next five begin where it ends.
    assert all(len(set(roles[n : n + 5])) == 1 for n in range(0, 200, 5))
    assert set(roles) == set(EVALUATION)
    contig = HeldIntervals(hold_contigs(HoldoutPolicy(contigs_validation=(), contigs_test=("chr17",)), LENGTHS))
    assert {row.role for row in hold_blocks(policy, blocks, contig)} == {Split.TEST}


def interval(holdout: Holdout, start: int, end: int, unit: str = "u") -> HeldInterval:
    return HeldInterval(holdout, Split.TEST, "chr17", start, end, unit, unit, IntervalReason.PROXIMITY_BLOCK)


def test_the_larger_reason_is_found_first() -> None:
    block, gene = interval(Holdout.HAPLOTYPES, 10, 30, "block"), interval(Holdout.CLINVAR, 20, 40, "gene")
    held = HeldIntervals([block, gene])
    start, end = np.array([15, 15, 5]), np.array([16, 21, 10])
    assert held.find_largest("chr17", start, end) == [block, gene, None]
    assert held.find_largest("chr20", start, end) == [None] * 3


def test_overlapping_intervals_of_one_holdout() -> None:
    rows = [
        interval(Holdout.CLINVAR, 40, 60, "c"),
        interval(Holdout.CLINVAR, 0, 50, "a"),
        interval(Holdout.CLINVAR, 5, 9, "b"),
    ]
    held = HeldIntervals(rows)
    assert [row.unit for row in held.of(Holdout.CLINVAR, "chr17")] == ["a", "b", "c"]
    at = np.array([5, 45, 55, 60])
    assert held.find(Holdout.CLINVAR, "chr17", at, at + 1).tolist() == [0, 0, 2, -1]
    assert [list(spans) for level in held.merged().values() for spans in level.values()] == [[(0, 60)]]


SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)).map(lambda s: (s[0], s[0] + s[1])), max_size=9)


def columns(spans: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    start, end = np.array(spans, dtype=np.int64).reshape(-1, 2).T
    return start, end


@given(SPANS, SPANS)
def test_first_met_is_the_first_that_shares_a_base(held: list[tuple[int, int]], asked: list[tuple[int, int]]) -> None:
    intervals = IntervalArray.from_unsorted(*columns(held))
    expected = [
        next((i for i, (a, b) in enumerate(intervals) if set(range(a, b)) & set(range(start, end))), -1)
        for start, end in asked
    ]
    assert first_met(intervals, *columns(asked)).tolist() == expected
    assert meets(intervals.merge(), *columns(asked)).tolist() == [i >= 0 for i in expected]
