from __future__ import annotations

from itertools import pairwise

from genolewm_assets.sample.genome.blueprint import CHR21, ELEMENT, LINEAR_CONTIGS, SEGMENTS, ContigPlan

WINDOW_BP, STRIDE_BP = 12_288, 8_192


def _meet(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] < b[1] and b[0] < a[1]


def _plan(name: str) -> ContigPlan:
    return next(plan for plan in LINEAR_CONTIGS if plan.name == name)


def test_at_least_twelve_genes_on_every_contig_apart_from_gaps() -> None:
    genes = [gene for plan in LINEAR_CONTIGS for gene in plan.genes]
    assert len({gene.gene_id for gene in genes}) == len({gene.symbol for gene in genes}) == len(genes) >= 12
    assert all(plan.genes for plan in LINEAR_CONTIGS)
    for plan in LINEAR_CONTIGS:
        for gene in plan.genes:
            assert not any(_meet((gene.start, gene.end), gap) for gap in plan.gaps)
            assert not _meet((gene.start, gene.end), plan.satellite)


def test_neighbouring_genes_are_more_than_a_window_apart_but_for_one_overlapping_pair() -> None:
    overlapping = []
    for plan in LINEAR_CONTIGS:
        for left, right in pairwise(plan.genes):
            if right.start < left.end:
                overlapping.append((left.symbol, right.symbol))
            else:
                assert right.start - left.end > WINDOW_BP
    assert overlapping == [("SIM5", "SIM6")]


def test_copies_land_outside_genes_and_gaps() -> None:
    for segment in SEGMENTS:
        plan = _plan(segment.target)
        place = (segment.target_start, segment.target_start + segment.size_bp)
        origin = (segment.source_start, segment.source_start + segment.size_bp)
        assert not any(_meet(place, (gene.start, gene.end)) for gene in plan.genes)
        assert not any(_meet(place, gap) for gap in plan.gaps)
        assert not any(_meet(origin, gap) for gap in _plan(segment.source).gaps)


def test_exact_copy_repeats_whole_windows() -> None:
    exact = next(segment for segment in SEGMENTS if segment.per_mille == 0)
    assert (exact.target_start - exact.source_start) % STRIDE_BP == 0
    assert exact.size_bp > WINDOW_BP + STRIDE_BP
    lows = [gap for gap in CHR21.gaps if exact.source_start < gap[0] < exact.target_start]
    assert lows == []


def test_element_lies_in_its_gene() -> None:
    host = next(gene for gene in _plan("chr17").genes if gene.symbol == "SIM3")
    assert host.start <= ELEMENT.start < ELEMENT.end <= host.end
