"""ClinVar-style content of two releases: alleles of genes, their consequences and assertions.

Between the releases alleles are added and removed and change their class or, rarely, their VariationID.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from genolewm_assets.genome import Variant, normalise
from genolewm_assets.sample.alleles.assertions import (
    RARE_TERM_RECORDS,
    RARE_TERMS,
    Assertion,
    draw_assertion,
    next_assertion,
    rare_assertion,
)
from genolewm_assets.sample.genome import TAIL_BP, Draws, Gene, SimulatedContig, codon_change

_TERMS = {
    "missense_variant": ("SO:0001583", "missense"),
    "synonymous_variant": ("SO:0001819", "silent"),
    "nonsense": ("SO:0001587", "truncating"),
    "stop_lost": ("SO:0001578", "missense"),
    "initiator_codon_variant": ("SO:0001582", "truncating"),
    "frameshift_variant": ("SO:0001589", "truncating"),
    "inframe_deletion": ("SO:0001822", "missense"),
    "inframe_insertion": ("SO:0001821", "missense"),
    "inframe_indel": ("SO:0001820", "missense"),
    "splice_donor_variant": ("SO:0001575", "truncating"),
    "splice_acceptor_variant": ("SO:0001574", "truncating"),
    "intron_variant": ("SO:0001627", "silent"),
    "5_prime_UTR_variant": ("SO:0001623", "silent"),
    "3_prime_UTR_variant": ("SO:0001624", "silent"),
    "non-coding_transcript_variant": ("SO:0001619", "missense"),
}
#: Percentage of alleles by kind: substitution in a codon, splice site, intron, gene tail; exonic indel; replacement of
#: several bases.
_SHAPES = (55, 7, 11, 5, 18, 4)
_COMMON_PER_GENE = 8
_MITO_PER_GENE = 25
_ONLY_FIRST, _ONLY_SECOND = 0.012, 0.25
_N_NEW_IDS = 2
_FIRST_ID = 990_000_001


@dataclass(frozen=True, slots=True)
class ClinicalAllele:
    """One normalised allele with its assertions in the two releases, None for one without it, and its VariationIDs."""

    allele: Variant
    genes: str
    consequence: str
    first_id: int
    second_id: int
    first: Assertion | None
    second: Assertion | None

    @property
    def molecular_consequence(self) -> str:
        """Sequence Ontology accession and term in the format of INFO/MC, such as ``SO:0001587|nonsense``."""
        return f"{_TERMS[self.consequence][0]}|{self.consequence}"


def simulate_clinical_alleles(
    contigs: Mapping[str, SimulatedContig], common: Mapping[str, Sequence[Variant]], element: tuple[str, int, int, str]
) -> tuple[ClinicalAllele, ...]:
    """Return the alleles of every gene, in genome order.

    Parameters
    ----------
    common
        Normalised alleles by contig that are common in the population; up to eight per gene get assertions too.
    element
        Contig, start and end (0-based half-open) of a regulatory element, and its ``SYMBOL:GeneID``.
    """
    found: dict[tuple[str, int, str, str], tuple[Variant, Gene, str]] = {}
    for contig in contigs.values():
        sequence = contig.sequence
        for gene in contig.genes:
            inside = [v for v in common.get(contig.name, ()) if gene.span[0] <= v.pos - 1 < gene.span[1]]
            for allele, consequence in _gene_alleles(contig, sequence, gene, inside):
                found.setdefault((contig.name, allele.pos, allele.ref, allele.alt), (allele, gene, consequence))
    order = {name: number for number, name in enumerate(contigs)}
    keys = sorted(found, key=lambda k: (order[k[0]], *k[1:]))
    common_keys = {name: {(v.pos, v.ref, v.alt) for v in variants} for name, variants in common.items()}
    return _assert_all([found[k] for k in keys], common_keys, contigs, element)


def _assert_all(
    found: Sequence[tuple[Variant, Gene, str]],
    common_keys: Mapping[str, set[tuple[int, str, str]]],
    contigs: Mapping[str, SimulatedContig],
    element: tuple[str, int, int, str],
) -> tuple[ClinicalAllele, ...]:
    draws = Draws(0, 50)
    presence = draws.uniform(len(found)).tolist()
    rare_at = draws.sample(len(found), RARE_TERM_RECORDS * len(RARE_TERMS)).tolist()
    rare = {i: number for number, i in enumerate(rare_at)}
    renumbered = set(draws.sample(len(found), 40).tolist()[:: 40 // _N_NEW_IDS])
    alleles = []
    for i, (allele, gene, consequence) in enumerate(found):
        effect = _TERMS[consequence][1]
        if (allele.pos, allele.ref, allele.alt) in common_keys.get(gene.contig, ()):
            effect = "common"
        first = rare_assertion(rare[i], draws) if i in rare else draw_assertion(effect, draws)
        stays = i in rare or i in renumbered
        later = first if stays else next_assertion(first, draws)
        removed = presence[i] < _ONLY_FIRST and not stays
        new = presence[i] > 1 - _ONLY_SECOND and not stays
        alleles.append(
            ClinicalAllele(
                allele,
                _gene_info(allele, contigs[gene.contig].genes, element),
                consequence,
                _FIRST_ID + i,
                _FIRST_ID + i + (500_000 if i in renumbered else 0),
                None if new else first,
                None if removed else later,
            )
        )
    return tuple(alleles)


def _gene_info(allele: Variant, genes: Sequence[Gene], element: tuple[str, int, int, str]) -> str:
    """Return GENEINFO: every gene that contains the allele, and the regulatory element if it contains the allele."""
    start = allele.pos - 1
    names = [f"{g.plan.symbol}:{g.plan.gene_id}" for g in genes if g.span[0] <= start < g.span[1]]
    contig, low, high, name = element
    if allele.chrom == contig and low <= start < high:
        names.append(name)
    return "|".join(names)


def _gene_alleles(
    contig: SimulatedContig, sequence: bytes, gene: Gene, common: Sequence[Variant]
) -> list[tuple[Variant, str]]:
    draws = Draws(0, 51, gene.plan.gene_id)
    if not gene.exons:
        places = draws.between(gene.plan.start, gene.plan.end, _MITO_PER_GENE).tolist()
        return [(_base_change(contig, at, draws)[0], "non-coding_transcript_variant") for at in places]
    alleles = [(v, "intron_variant") for v in common[:_COMMON_PER_GENE] if not _is_exonic(v, gene)]
    makers = (_coding_change, _splice_change, _intron_change, _tail_change, _coding_indel, _coding_replacement)
    for shape in draws.choose(_SHAPES, int(draws.between(100, 190, 1)[0])).tolist():
        allele, consequence = makers[shape](contig, gene, draws)
        alleles.append((normalise(allele, sequence) if allele.is_indel else allele, consequence))
    return alleles


def _is_exonic(allele: Variant, gene: Gene) -> bool:
    start = allele.pos - 1
    return any(low - 2 <= start + len(allele.ref) and start < high + 2 for low, high in gene.exons)


def _base_change(contig: SimulatedContig, at: int, draws: Draws) -> tuple[Variant, int]:
    code = int(contig.codes[at])
    other = code ^ (2 if draws.uniform(1)[0] < 0.6 else 1 + 2 * int(draws.below(2, 1)[0]))
    return Variant(contig.name, at + 1, "ACGT"[code], "ACGT"[other]), other


def _coding_change(contig: SimulatedContig, gene: Gene, draws: Draws) -> tuple[Variant, str]:
    index = int(draws.below(gene.coding.size, 1)[0])
    allele, other = _base_change(contig, int(gene.coding[index]), draws)
    return allele, codon_change(gene, contig.codes, index, other)


def _splice_change(contig: SimulatedContig, gene: Gene, draws: Draws) -> tuple[Variant, str]:
    intron = int(draws.below(len(gene.exons) - 1, 1)[0])
    left = draws.uniform(1)[0] < 0.5
    offset = int(draws.below(2, 1)[0])
    at = gene.exons[intron][1] + offset if left else gene.exons[intron + 1][0] - 1 - offset
    donor = left == (gene.plan.strand == "+")
    return _base_change(contig, at, draws)[0], "splice_donor_variant" if donor else "splice_acceptor_variant"


def _intron_change(contig: SimulatedContig, gene: Gene, draws: Draws) -> tuple[Variant, str]:
    intron = int(draws.below(len(gene.exons) - 1, 1)[0])
    at = gene.exons[intron][1] + int(draws.between(6, 120, 1)[0])
    return _base_change(contig, at, draws)[0], "intron_variant"


def _tail_change(contig: SimulatedContig, gene: Gene, draws: Draws) -> tuple[Variant, str]:
    left = draws.uniform(1)[0] < 0.5
    low = gene.plan.start if left else gene.plan.end - TAIL_BP
    at = int(draws.between(low, low + TAIL_BP, 1)[0])
    leading = left == (gene.plan.strand == "+")
    return _base_change(contig, at, draws)[0], "5_prime_UTR_variant" if leading else "3_prime_UTR_variant"


def _exonic_start(gene: Gene, size: int, draws: Draws) -> int:
    """Return the 0-based start of ``size`` bases inside one exon, at least four bases from both of its ends."""
    low, high = gene.exons[int(draws.below(len(gene.exons), 1)[0])]
    return int(draws.between(low + 4, high - size - 4, 1)[0])


def _coding_indel(contig: SimulatedContig, gene: Gene, draws: Draws) -> tuple[Variant, str]:
    size = (1, 1, 2, 4, 3, 6, 11)[int(draws.below(7, 1)[0])]
    start = _exonic_start(gene, size, draws)
    bases = "".join("ACGT"[c] for c in contig.codes[start : start + size].tolist())
    anchor = "ACGT"[int(contig.codes[start - 1])]
    if draws.uniform(1)[0] < 0.6:
        return Variant(contig.name, start, anchor + bases, anchor), _shift_term(size, "inframe_deletion")
    if draws.uniform(1)[0] < 0.3:
        bases = "".join("ACGT"[c] for c in draws.below(4, size).tolist())
    return Variant(contig.name, start, anchor, anchor + bases), _shift_term(size, "inframe_insertion")


def _shift_term(size: int, in_frame: str) -> str:
    return "frameshift_variant" if size % 3 else in_frame


def _coding_replacement(contig: SimulatedContig, gene: Gene, draws: Draws) -> tuple[Variant, str]:
    """Return an allele that replaces 2-4 bases by as many others (MNV) or by one base fewer (delins)."""
    size = int(draws.between(2, 5, 1)[0])
    start = _exonic_start(gene, size, draws)
    codes = contig.codes[start : start + size].tolist()
    others = [(c + 1 + int(k)) % 4 for c, k in zip(codes, draws.below(3, size).tolist(), strict=True)]
    if size > 2 and draws.uniform(1)[0] < 0.5:
        others = [*others[1:-1], (codes[-1] + 1) % 4]
    ref, alt = ("".join("ACGT"[c] for c in part) for part in (codes, others))
    change = size - len(others)
    return Variant(contig.name, start + 1, ref, alt), "frameshift_variant" if change % 3 else "inframe_indel"
