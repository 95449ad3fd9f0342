"""Gene models with valid reading frames: start codon, sense codons, stop codon, GT-AG introns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.sample.genome.blueprint import GenePlan, Span
from genolewm_assets.sample.genome.draws import Draws

Codes = NDArray[np.uint8]

#: The standard genetic code, codons in the order of base codes A, C, G, T (NCBI translation table 1).
AMINO_ACIDS = "KNKNTTTTRSRSIIMIQHQHPPPPRRRRLLLLEDEDAAAAGGGGVVVV*Y*YSSSS*CWCLFLF"
_SENSE = np.array([i for i, acid in enumerate(AMINO_ACIDS) if acid != "*"], dtype=np.int64)
_START_CODON = 14  # ATG
_STOP_CODON = 48  # TAA
#: Bases at each end of a gene that contain no exon.
TAIL_BP = 5_000


@dataclass(frozen=True, slots=True)
class Gene:
    """A gene, and its coding bases in the order of translation as 0-based positions: int64, shape (coding bases,).

    Exons are 0-based half-open and ascending. Mitochondrial genes have no exon model.
    """

    contig: str
    plan: GenePlan
    exons: tuple[Span, ...]
    coding: NDArray[np.int64]

    @property
    def span(self) -> Span:
        """Start and end of the gene, 0-based half-open."""
        return self.plan.start, self.plan.end


def write_gene(codes: Codes, contig: str, plan: GenePlan, draws: Draws) -> Gene:
    """Write the exons of a gene, whole codons without its tails of 5 kb, into a contig in place; return the gene."""
    size = plan.end - plan.start
    count = 8 + size // 10_000
    lengths = 3 * draws.between(30, 81, count)
    slot = (size - 2 * TAIL_BP) // count
    starts = TAIL_BP + slot * np.arange(count) + draws.below(slot - 400, count)
    coding = _coding_sequence(int(lengths.sum()), draws)
    sense = _orient(codes[plan.start : plan.end], plan.strand).copy()
    positions = np.concatenate([np.arange(s, s + n) for s, n in zip(starts, lengths, strict=True)])
    sense[positions] = coding
    for start in starts[1:]:
        sense[start - 2 : start] = (0, 2)
    for end in (starts + lengths)[:-1]:
        sense[end : end + 2] = (2, 3)
    codes[plan.start : plan.end] = _orient(sense, plan.strand)
    genomic = plan.start + positions if plan.strand == "+" else plan.end - 1 - positions
    edges = [(int(s), int(s + n)) for s, n in zip(starts, lengths, strict=True)]
    if plan.strand == "-":
        edges = [(size - end, size - start) for start, end in reversed(edges)]
    exons = tuple((plan.start + start, plan.start + end) for start, end in edges)
    return Gene(contig, plan, exons, genomic.astype(np.int64))


def _orient(codes: Codes, strand: str) -> Codes:
    return codes if strand == "+" else (3 - codes)[::-1]


def _coding_sequence(n: int, draws: Draws) -> Codes:
    codons = _SENSE[draws.below(_SENSE.size, n // 3)]
    codons[0], codons[-1] = _START_CODON, _STOP_CODON
    return np.stack([codons >> 4, (codons >> 2) & 3, codons & 3], axis=1).reshape(-1).astype(np.uint8)


def codon_change(gene: Gene, codes: Codes, index: int, alt_code: int) -> str:
    """Return the Sequence Ontology term of a new forward base at an index into ``gene.coding``, on a contig's codes."""
    first = index - index % 3
    triplet = codes[gene.coding[first : first + 3]].astype(np.int64)
    changed = triplet.copy()
    changed[index % 3] = alt_code
    before, after = (AMINO_ACIDS[_codon_number(t, gene.plan.strand)] for t in (triplet, changed))
    if before == after:
        return "synonymous_variant"
    if first == 0:
        return "initiator_codon_variant"
    if after == "*":
        return "nonsense"
    return "stop_lost" if before == "*" else "missense_variant"


def _codon_number(triplet: NDArray[np.int64], strand: str) -> int:
    a, b, c = (int(x) if strand == "+" else 3 - int(x) for x in triplet)
    return 16 * a + 4 * b + c
