"""Heteroplasmy VCFs of simulated mitochondrial genomes: ``AF`` as in Mutect2, one per ALT, or ``HL`` as in gnomAD.

Added on purpose: a record with two ALTs (AF only), a heteroplasmic deletion, a call that does not pass FILTER, a genome
without a call at a site.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from genolewm_assets.genome import Variant, normalise
from genolewm_assets.sample.genome import Draws, SimulatedContig
from genolewm_assets.sample.mito.genomes import HETEROPLASMIC, MitoGenome

_KEY = 26
_N_AF = 4
#: gnomAD's threshold between heteroplasmic and homoplasmic (Laricchia 2022), per mille.
_HOMOPLASMIC = 950
_PASS, _FAILED = "PASS", "strand_bias"
#: 1-based positions from which a site is searched for each added call; no genome differs there otherwise.
_TWO_ALTS_FROM, _FAILED_FROM, _DELETION_FROM, _UNCALLED_FROM = 4_000, 6_000, 9_000, 12_000
_TWO_ALTS_PER_MILLE, _FAILED_PER_MILLE, _DELETION_PER_MILLE, _UNCALLED_PER_MILLE = (110, 60), 35, 150, 120


@dataclass(frozen=True, slots=True)
class HeteroplasmyLayout:
    """Layout of a heteroplasmy VCF: FORMAT id and Number of the level, and indices of the genomes in the file."""

    level: str
    number: str
    source: str
    members: tuple[int, ...]


AF_LAYOUT = HeteroplasmyLayout("AF", "A", "Mutect2's mitochondrial mode", HETEROPLASMIC[:_N_AF])
HL_LAYOUT = HeteroplasmyLayout("HL", "1", "gnomAD's mitochondrial call set", HETEROPLASMIC[_N_AF:])


#: Levels in per mille of each ALT, by 0-based column, by 1-based position, REF and ALTs.
_Records: TypeAlias = dict[tuple[int, str, tuple[str, ...]], list[dict[int, int]]]


def heteroplasmy_vcf(contig: SimulatedContig, genomes: Sequence[MitoGenome], layout: HeteroplasmyLayout) -> bytes:
    """Return the text of a VCF with one column per genome of the layout, under the genome's name."""
    members = [genomes[index] for index in layout.members]
    free = _free_sites(contig, members)
    records: _Records = {}
    for member, genome in enumerate(members):
        for allele, per_mille in _alleles(contig, genome):
            records.setdefault((allele.pos, allele.ref, (allele.alt,)), [{}])[0].setdefault(member, per_mille)
    records |= _planted(contig, free, several=layout.number == "A")
    lines = _header(contig, layout, [genome.name for genome in members])
    draws = Draws(_KEY, 8, len(members))
    for (pos, ref, alts), by_alt in sorted(records.items()):
        passed = _FAILED if pos == free[_FAILED_FROM] else _PASS
        depths = draws.between(400, 2_500, len(members)).tolist()
        missing = 0 if pos == free[_UNCALLED_FROM] else None
        cells = [_cell(by_alt, i, depth) if i != missing else "./.:.:." for i, depth in enumerate(depths)]
        columns = (contig.name, pos, ".", ref, ",".join(alts), ".", passed, ".", f"GT:DP:{layout.level}", *cells)
        lines.append("\t".join(map(str, columns)))
    return ("\n".join(lines) + "\n").encode("ascii")


def _alleles(contig: SimulatedContig, genome: MitoGenome) -> Iterator[tuple[Variant, int]]:
    """Yield the alleles of a genome, left-aligned, with their levels in per mille."""
    text = contig.sequence.decode("ascii")
    draws = Draws(_KEY, 7, int(genome.name.removeprefix("SIMMT")))
    alleles = [Variant(contig.name, site + 1, text[site], base) for site, base in sorted(genome.substituted.items())]
    for site, more in sorted(genome.inserted.items()):
        alleles.append(normalise(Variant(contig.name, site + 1, text[site], text[site] + more), contig.sequence))
    if genome.deleted:
        first, end = min(genome.deleted), max(genome.deleted) + 1
        allele = Variant(contig.name, first, text[first - 1 : end], text[first - 1])
        alleles.append(normalise(allele, contig.sequence))
    yield from zip(alleles, draws.between(_HOMOPLASMIC, 1_001, len(alleles)).tolist(), strict=True)
    for mixed in genome.mixed:
        yield Variant(contig.name, mixed.site + 1, text[mixed.site], mixed.alt), mixed.per_mille


def _free_sites(contig: SimulatedContig, members: Sequence[MitoGenome]) -> dict[int, int]:
    """Return by start of a search the first 1-based position without a difference whose base differs from the next."""
    text = contig.sequence.decode("ascii")
    taken = {site + 1 for g in members for site in (*g.substituted, *(m.site for m in g.mixed))}
    found = {}
    for start in (_TWO_ALTS_FROM, _FAILED_FROM, _DELETION_FROM, _UNCALLED_FROM):
        pos = start
        while {pos, pos + 1, pos + 2} & taken or text[pos - 1] == text[pos]:
            pos += 1
        found[start] = pos
    return found


def _planted(contig: SimulatedContig, free: dict[int, int], *, several: bool) -> _Records:
    text = contig.sequence.decode("ascii")

    def substitution(start: int, member: int, *per_mille: int) -> _Records:
        pos = free[start]
        ref = text[pos - 1]
        alts = tuple(base for base in "ACGT" if base != ref)[: len(per_mille)]
        return {(pos, ref, alts): [{member: level} for level in per_mille]}

    pos = free[_DELETION_FROM]
    deletion: _Records = {(pos, text[pos - 1 : pos + 1], (text[pos - 1],)): [{0: _DELETION_PER_MILLE}]}
    return {
        **(substitution(_TWO_ALTS_FROM, 1, *_TWO_ALTS_PER_MILLE) if several else {}),
        **substitution(_FAILED_FROM, 2, _FAILED_PER_MILLE),
        **deletion,
        **substitution(_UNCALLED_FROM, 1, _UNCALLED_PER_MILLE),
    }


def _cell(by_alt: list[dict[int, int]], member: int, depth: int) -> str:
    """Return genotype, depth and levels of one genome; the level is 0 for an ALT that it does not have."""
    levels = [calls.get(member, 0) for calls in by_alt]
    carried = [number for number, level in enumerate(levels, start=1) if level]
    if sum(levels) >= _HOMOPLASMIC:
        genotype = f"{carried[0]}/{carried[0]}"
    else:
        genotype = "/".join(map(str, [0, *carried])) if carried else "0/0"
    return f"{genotype}:{depth}:{','.join(f'{level / 1000:.3f}' for level in levels)}"


def _header(contig: SimulatedContig, layout: HeteroplasmyLayout, names: list[str]) -> list[str]:
    return [
        "##fileformat=VCFv4.2",
        f"##source=simulated by genolewm_assets.sample in the layout of {layout.source}; no real person or site",
        "##reference=simulated, not rCRS",
        '##FILTER=<ID=PASS,Description="All filters passed">',
        f'##FILTER=<ID={_FAILED},Description="Evidence for the ALT comes from one strand">',
        '##FORMAT=<ID=GT,Number=1,Type=String,Description="Genotype">',
        '##FORMAT=<ID=DP,Number=1,Type=Integer,Description="Reads at the site">',
        f'##FORMAT=<ID={layout.level},Number={layout.number},Type=Float,Description="Share of copies with the ALT">',
        f"##contig=<ID={contig.name},length={contig.codes.size}>",
        "\t".join(["#CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO", "FORMAT", *names]),
    ]
