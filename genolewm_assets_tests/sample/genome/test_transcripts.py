from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from genolewm_assets.genome import reverse_complement
from genolewm_assets.sample.genome.reference import SimulatedContig
from genolewm_assets.sample.genome.transcripts import read_sense, splice

LETTERS = np.frombuffer(b"ACGTN", np.uint8)


@pytest.mark.parametrize("gene_number", [0, 1], ids=["forward", "reverse"])
def test_a_transcript_reads_its_exons_in_order(genome: Mapping[str, SimulatedContig], gene_number: int) -> None:
    contig = genome["chr17"]
    gene = contig.genes[gene_number]
    forward = gene.plan.strand == "+"
    count = len(gene.exons)
    chosen = [0, 2, count - 1]
    made = splice(contig, gene, chosen, 100, 300)
    spans = [list(gene.exons[i if forward else count - 1 - i]) for i in chosen]
    first, last = spans[0], spans[-1]
    if forward:
        first[0], last[1] = first[0] - 100, last[1] + 300
    else:
        first[1], last[0] = first[1] + 100, last[0] - 300
    pieces = [contig.sequence[a:b] if forward else reverse_complement(contig.sequence[a:b]) for a, b in spans]
    assert LETTERS[made.codes].tobytes() == b"".join(pieces)
    assert made.junctions == (len(pieces[0]), len(pieces[0]) + len(pieces[1]))
    assert made.span == (min(a for a, _ in spans), max(b for _, b in spans))


def test_the_coding_part_reads_from_start_to_stop(genome: Mapping[str, SimulatedContig]) -> None:
    for gene in genome["chr21"].genes:
        made = splice(genome["chr21"], gene, range(len(gene.exons)), 0, 0)
        text = LETTERS[made.codes].tobytes()
        assert (text[:3], text[-3:], len(text) % 3) == (b"ATG", b"TAA", 0)


def test_unknown_bases_stay_unknown_on_either_strand(genome: Mapping[str, SimulatedContig]) -> None:
    contig = genome["chr17"]
    span = (1_179_990, 1_180_010)
    for strand in "+-":
        assert (read_sense(contig, span, strand) == 4).sum() == 10
