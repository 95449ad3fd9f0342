from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pysam
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from genolewm_assets.errors import InputError
from genolewm_assets.genome import Interval, Split
from genolewm_assets.holdouts.haplotype_blocks import (
    Blocks,
    HaplotypeBlock,
    choose_blocks,
    find_blocks,
    list_haplotypes,
)
from genolewm_assets.holdouts.schema import HOLDOUT_HAPLOTYPES
from genolewm_assets_tests.holdouts.genotypes import genotypes_of
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.lewm.holdout_world import gnomad

Allele = tuple[int, str, str]


def spans(alleles: list[Allele], *, link_bp: int = 1_000, max_block_bp: int = 10_000) -> list[tuple[int, int]]:
    found = find_blocks(gnomad(alleles), link_bp=link_bp, max_block_bp=max_block_bp)
    return [(block.span.start, block.span.end) for block in found]


@each_row(("step", "blocks"), [(1, 1), (999, 1), (1_000, 1), (1_001, 0)])
def test_linked_up_to_a_thousand_bases(step: int, blocks: int) -> None:
    assert len(spans([(5, "A", "C"), (5 + step, "A", "C")])) == blocks


def test_cut_before_it_gets_too_long() -> None:
    chain = [(1 + 1_000 * n, "A", "C") for n in range(25)]
    # Base 10,001 would be the first beyond 10 kb from the first base.
    assert spans(chain) == [(0, 9_001), (10_000, 19_001), (20_000, 24_001)]
    longer = [(1, "A", "C"), (901, "A" * 101, "A"), (1_001, "A", "C"), (1_002, "A", "C")]
    assert spans(longer, max_block_bp=1_001) == [(0, 1_001)]
    assert spans(longer, max_block_bp=1_000) == [(900, 1_002)]


def test_wrong_tables() -> None:
    table = gnomad([(5, "A", "C"), (9, "A", "C")])
    with pytest.raises(InputError, match="sorted"):
        find_blocks(table.take([1, 0]), link_bp=5, max_block_bp=10)
    with pytest.raises(InputError, match="phased"):
        find_blocks(table, link_bp=5, max_block_bp=10, carried=genotypes_of(np.ones((3, 2), dtype=bool)))
    assert not find_blocks(gnomad([]), link_bp=5, max_block_bp=10)


ALLELE = st.tuples(st.integers(1, 120), st.sampled_from(["A", "AC", "ACGTACGT"]), st.sampled_from("GT"))
ALLELES = st.lists(ALLELE, max_size=30, unique=True)


def plain_blocks(
    alleles: list[Allele], link_bp: int, max_bp: int, haplotypes: list[set[int]] | None
) -> list[list[int]]:
    """Group row numbers with loops: flood, cut, and flood again inside each piece."""
    order = sorted(alleles)

    def linked(i: int, j: int) -> bool:
        near = abs(order[i][0] - order[j][0]) <= link_bp
        return near and (haplotypes is None or any({i, j} <= carried for carried in haplotypes))

    def flood(left: set[int]) -> list[list[int]]:
        groups = []
        while left:
            group = {min(left)}
            while more := {j for j in left - group if any(linked(i, j) for i in group)}:
                group |= more
            left = left - group
            groups.append(sorted(group))
        return groups

    blocks = []
    for group in flood(set(range(len(order)))):
        pieces: list[list[int]] = [[]]
        for i in group:
            first = pieces[-1][0] if pieces[-1] else i
            if order[i][0] - 1 + len(order[i][1]) - (order[first][0] - 1) > max_bp and pieces[-1]:
                pieces.append([])
            pieces[-1].append(i)
        blocks += [part for piece in pieces for part in flood(set(piece))]
    return sorted(block for block in blocks if order[block[0]][0] != order[block[-1]][0])


@given(ALLELES, st.integers(0, 20), st.integers(20, 40))
def test_equal_to_a_referee_of_loops(alleles: list[Allele], link_bp: int, max_bp: int) -> None:
    found = find_blocks(gnomad(alleles), link_bp=link_bp, max_block_bp=max_bp)
    assert sorted(list(block.alleles) for block in found) == plain_blocks(alleles, link_bp, max_bp, None)
    assert all(block.span.end - block.span.start <= max_bp and not block.phased for block in found)


#: The first two alleles occur together with the third only, which a cut puts into another block.
PARTED = [(1, "A", "C"), (11, "A", "C"), (21, "A", "C"), (25, "A", "C")]


@given(ALLELES, st.lists(st.sets(st.integers(0, 29), max_size=8), max_size=4), st.integers(0, 20), st.integers(20, 40))
@example(PARTED, [{0, 2}, {1, 2}, {2, 3}], 20, 20)
def test_phased_blocks_equal_a_referee_of_loops(
    alleles: list[Allele], haplotypes: list[set[int]], link_bp: int, max_bp: int
) -> None:
    carried = np.zeros((len(alleles), len(haplotypes)), dtype=bool)
    for column, members in enumerate(haplotypes):
        carried[[row for row in members if row < len(alleles)], column] = True
    found = find_blocks(gnomad(alleles), link_bp=link_bp, max_block_bp=max_bp, carried=genotypes_of(carried))
    assert sorted(list(block.alleles) for block in found) == plain_blocks(alleles, link_bp, max_bp, haplotypes)
    assert all(block.phased for block in found)


@given(ALLELES, st.data())
def test_alleles_without_a_genotype_are_linked_among_themselves(alleles: list[Allele], data: st.DataObject) -> None:
    order = sorted(alleles)
    known = np.array(data.draw(st.lists(st.booleans(), min_size=len(order), max_size=len(order))), dtype=bool)
    genotypes = genotypes_of(np.repeat(known[:, None], 2, axis=1), known)
    found = find_blocks(gnomad(alleles), link_bp=15, max_block_bp=30, carried=genotypes)
    for phased in (True, False):
        part = [i for i in range(len(order)) if known[i] == phased]
        alone = plain_blocks([order[i] for i in part], 15, 30, None)
        assert [list(b.alleles) for b in found if b.phased == phased] == [[part[i] for i in rows] for rows in alone]


def test_phased_genotypes_of_1000_genomes(shared_data: Path) -> None:
    path = shared_data / "thousand_genomes" / "1000G_phase3.phased.chr17_BRCA1_exons.vcf.gz"
    alleles, carriers = [], []
    with pysam.VariantFile(str(path)) as vcf:
        for record in vcf:
            if len(record.alts or ()) == 1 and set(record.ref + record.alts[0]) <= set("ACGT"):
                alleles.append((record.pos, record.ref, record.alts[0]))
                carriers.append([copy == 1 for sample in record.samples.values() for copy in sample["GT"]])
    order = sorted(range(len(alleles)), key=lambda i: alleles[i])
    carried = np.array(carriers, dtype=bool)[order]
    common = carried.mean(axis=1) >= 0.01
    alleles, carried = [alleles[i] for i, kept in zip(order, common, strict=True) if kept], carried[common]
    genotypes = genotypes_of(carried)
    found = find_blocks(gnomad(alleles), link_bp=1_000, max_block_bp=10_000, carried=genotypes)
    haplotypes = [set(np.flatnonzero(column).tolist()) for column in carried.T]
    assert sorted(list(block.alleles) for block in found) == plain_blocks(alleles, 1_000, 10_000, haplotypes)
    assert found
    nearby = find_blocks(gnomad(alleles), link_bp=1_000, max_block_bp=10_000)
    assert sum(len(block.alleles) for block in found) <= sum(len(block.alleles) for block in nearby)


def block(start: int, end: int, contig: str = "chr17") -> HaplotypeBlock:
    return HaplotypeBlock(f"{contig}:{start}", Interval(contig, start, end), (0, 1))


def as_arrays(given: list[HaplotypeBlock]) -> list[Blocks]:
    """Return one set of blocks per contig, in the order given."""
    found = []
    for contig in sorted({each.span.contig for each in given}):
        ours = [each for each in given if each.span.contig == contig]
        bounds = (np.array([getattr(each.span, name) for each in ours], np.int64) for name in ("start", "end"))
        firsts = np.cumsum([0, *(len(each.alleles) for each in ours)])
        rows = np.array([row for each in ours for row in each.alleles], np.int64)
        phased = np.array([each.phased for each in ours], dtype=bool)
        found.append(Blocks(contig, pa.array([each.id for each in ours]), (*bounds, rows, firsts), phased))
    return found


def footprints(n: int, size: int = 150, stride: int = 100) -> tuple[np.ndarray, np.ndarray]:
    start = np.arange(n, dtype=np.int64) * stride
    return start, start + size


@given(
    st.lists(st.tuples(st.integers(0, 4_900), st.integers(1, 300)), unique_by=lambda b: b[0], max_size=20),
    st.floats(0, 1),
    st.sampled_from([0.3, 1.0]),
    st.randoms(use_true_random=False),
)
def test_choice_equals_a_referee_of_loops(drawn, fraction, max_blocks, random) -> None:  # type: ignore[no-untyped-def]
    blocks = [replace(block(start, start + size), phased=start % 3 == 0) for start, size in drawn]
    draws = {b.id: random.getrandbits(64) for b in blocks}
    where = {"chr17": footprints(50)}
    chosen, used_up = choose_blocks(
        as_arrays(blocks), draws.__getitem__, where, fraction=fraction, tolerance=0.04, max_blocks=max_blocks
    )

    def removed(taken: list[HaplotypeBlock]) -> int:
        pairs = zip(*(column.tolist() for column in where["chr17"]), strict=True)
        return sum(any(b.span.start < end and start < b.span.end for b in taken) for start, end in pairs)

    def choose(candidates: Callable[[list[HaplotypeBlock]], list[HaplotypeBlock]]) -> list[HaplotypeBlock]:
        taken: list[HaplotypeBlock] = []
        refused: set[str] = set()
        while removed(taken) < fraction * 50 and len(taken) < int(max_blocks * len(blocks)):
            left = [b for b in candidates(taken) if b not in taken and b.id not in refused]
            if not left:
                break
            if removed([*taken, left[0]]) <= (fraction + 0.04) * 50:
                taken.append(left[0])
            else:
                refused.add(left[0].id)
        return taken

    ranked = sorted(blocks, key=lambda b: (not b.phased, draws[b.id]))
    by_draw = choose(lambda _: ranked)
    by_size = choose(lambda taken: sorted(ranked, key=lambda b: (not b.phased, -removed([*taken, b]))))
    stopped = removed(by_draw) < fraction * 50 and len(by_draw) == int(max_blocks * len(blocks))
    expected = by_size if stopped and removed(by_size) > removed(by_draw) else by_draw
    assert chosen == expected
    assert used_up == (removed(expected) < fraction * 50)
    assert removed(expected) >= removed(by_draw)


def test_blocks_of_contigs_without_windows_are_not_chosen() -> None:
    blocks = [block(100, 200, "chrM"), block(100, 200)]
    draws = {"chrM:100": 0, "chr17:100": 1}
    chosen, _ = choose_blocks(
        as_arrays(blocks), draws.__getitem__, {"chr17": footprints(50)}, fraction=1, tolerance=0, max_blocks=1
    )
    assert [b.span.contig for b in chosen] == ["chr17"]


CARRIED_ALLELES = [(10 * n + 1, "A", "C") for n in range(6)]


@given(st.lists(st.sets(st.integers(0, 5)), max_size=12), st.sets(st.integers(0, 5), min_size=2))
def test_rows_are_those_of_a_plain_count(haplotypes: list[set[int]], members: set[int]) -> None:
    carried = np.array([[row in carrier for carrier in haplotypes] for row in range(6)], dtype=bool).reshape(6, -1)
    rows = tuple(sorted(members))
    block = HaplotypeBlock("b", Interval("chr17", 0, 60), rows, phased=True)
    genotypes = {"chr17": genotypes_of(carried)}
    table = list_haplotypes([block], {"b": Split.TEST}, {"chr17": gnomad(CARRIED_ALLELES)}, genotypes)
    assert table.schema.equals(HOLDOUT_HAPLOTYPES.arrow)
    found = table.to_pylist()
    wanted = Counter(tuple(sorted(carrier & members)) for carrier in haplotypes if len(carrier & members) > 1)
    stated = {tuple((each["pos"] - 1) // 10 for each in row["alleles"]): row["n_carriers"] for row in found}
    assert stated == wanted
    assert [row["number"] for row in found] == list(range(len(wanted)))
    assert [row["n_carriers"] for row in found] == sorted(wanted.values(), reverse=True)
    assert all((row["role"], row["unit"], row["phased"]) == ("test", "b", True) for row in found)


def test_a_block_by_distance_has_one_row_with_all_its_alleles() -> None:
    blocks = [HaplotypeBlock(name, Interval("chr17", 0, 60), rows) for name, rows in (("b", (3, 4)), ("a", (0, 2, 5)))]
    roles = {"a": Split.VALIDATION, "b": Split.TEST}
    found = list_haplotypes(blocks, roles, {"chr17": gnomad(CARRIED_ALLELES)}, {}).to_pylist()
    assert [(row["unit"], row["role"], row["phased"], row["n_carriers"]) for row in found] == [
        ("a", "validation", False, None),
        ("b", "test", False, None),
    ]
    assert found[0]["alleles"] == [{"pos": pos, "ref": "A", "alt": "C"} for pos in (1, 21, 51)]
