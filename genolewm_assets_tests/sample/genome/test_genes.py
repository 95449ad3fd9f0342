from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from genolewm_assets.sample.genome.genes import Gene, codon_change
from genolewm_assets.sample.genome.reference import SimulatedContig

# The genetic code written another way than in the module: by what each amino acid is spelled with.
STOPS = {"TAA", "TAG", "TGA"}


def _all_genes(genome: Mapping[str, SimulatedContig]) -> list[tuple[SimulatedContig, Gene]]:
    return [(contig, gene) for contig in genome.values() for gene in contig.genes if gene.exons]


def _spliced(contig: SimulatedContig, gene: Gene) -> str:
    text = "".join("ACGT"[code] for a, b in gene.exons for code in contig.codes[a:b].tolist())
    return text if gene.plan.strand == "+" else text[::-1].translate(str.maketrans("ACGT", "TGCA"))


def test_every_gene_reads_from_start_to_stop(genome: Mapping[str, SimulatedContig]) -> None:
    for contig, gene in _all_genes(genome):
        coding = _spliced(contig, gene)
        codons = [coding[i : i + 3] for i in range(0, len(coding), 3)]
        assert codons[0] == "ATG"
        assert codons[-1] in STOPS
        assert not STOPS & set(codons[:-1])
        assert len(gene.coding) == len(coding)


def test_introns_begin_with_gt_and_end_with_ag(genome: Mapping[str, SimulatedContig]) -> None:
    for contig, gene in _all_genes(genome):
        first, last = ("GT", "AG") if gene.plan.strand == "+" else ("CT", "AC")
        text = contig.sequence.decode()
        for (_, end), (start, _) in zip(gene.exons[:-1], gene.exons[1:], strict=True):
            assert start - end > 300
            assert (text[end : end + 2], text[start - 2 : start]) == (first, last)


@pytest.mark.parametrize("strand", ["+", "-"])
def test_codon_change_names_what_translation_does(genome: Mapping[str, SimulatedContig], strand: str) -> None:
    contig, gene = next((c, g) for c, g in _all_genes(genome) if g.plan.strand == strand)
    coding = _spliced(contig, gene)
    complement = "TGCA" if strand == "-" else "ACGT"
    seen = set()
    for index in range(3, 600):
        codon = coding[index - index % 3 : index - index % 3 + 3]
        for code in range(4):
            base = complement[code]
            if base == coding[index]:
                continue
            changed = codon[: index % 3] + base + codon[index % 3 + 1 :]
            term = codon_change(gene, contig.codes, index, code)
            seen.add(term)
            assert (term == "nonsense") == (changed in STOPS)
    assert seen == {"synonymous_variant", "missense_variant", "nonsense"}
    lost = codon_change(gene, contig.codes, len(coding) - 3, "ACGT".index("C" if strand == "+" else "G"))
    assert lost == "stop_lost"
    assert codon_change(gene, contig.codes, 0, int(3 - contig.codes[gene.coding[0]])) == "initiator_codon_variant"


def test_coding_positions_are_those_of_the_exons(genome: Mapping[str, SimulatedContig]) -> None:
    for _, gene in _all_genes(genome):
        exonic = np.concatenate([np.arange(a, b) for a, b in gene.exons])
        assert np.array_equal(np.sort(gene.coding), exonic)
