"""FASTA and GenBank text of the simulated mitochondrial genomes, with the irregular records of real collections.

Irregular records are: a genome repeated with another name and start, a partial genome, a run of N, a genome whose ends
overlap, a GenBank record without a sequence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from genolewm_assets.genome import reverse_complement
from genolewm_assets.sample.genome import Draws
from genolewm_assets.sample.mito.genomes import MitoGenome

_KEY = 26
#: The last four genomes are in the GenBank file.
N_GENBANK = 4
_LINE_BASES = 70
_SPECIES = "Homo sapiens"
_TWIN, _PART, _GAPPED, _OVERLAPPING = 3, 8, 9, 12
_TWIN_TURN_BP, _PART_BP, _GAP_BP, _OVERLAP_BP = 5_000, 15_000, 400, 37


def fasta_text(genomes: Sequence[MitoGenome], reference: str) -> bytes:
    """Return the FASTA text: all genomes but the last four, then the four irregular records."""
    spelt = [genome.spell(reference) for genome in genomes]
    records = [_fasta_record(genome, i, spelt[i]) for i, genome in enumerate(genomes[:-N_GENBANK])]
    twin, gapped = spelt[_TWIN], spelt[_GAPPED]
    planted = (
        twin[_TWIN_TURN_BP:] + twin[:_TWIN_TURN_BP],
        spelt[_PART][:_PART_BP],
        gapped[:6_000] + "N" * _GAP_BP + gapped[6_000 + _GAP_BP :],
        spelt[_OVERLAPPING] + spelt[_OVERLAPPING][:_OVERLAP_BP],
    )
    for number, sequence in enumerate(planted, start=101):
        records.append(f">SIMMT{number} simulated mitochondrial genome\n{_lines(sequence)}")
    return "".join(records).encode("ascii")


def genbank_text(genomes: Sequence[MitoGenome], reference: str) -> bytes:
    """Return the GenBank text: the last four genomes, and a record without a sequence."""
    last = list(enumerate(genomes))[-N_GENBANK:]
    records = ["".join(_genbank_record(genome, i, genome.spell(reference))) for i, genome in last]
    parts = f"{_locus('SIMMT105', len(reference))}CONTIG      join(SIMMT001.1:1..{len(reference)})\n//\n"
    return "".join([*records, parts]).encode("ascii")


def _cut(sequence: str, index: int) -> str:
    """Return a genome as laboratories deposit it: every third with another start, every fifth from the other strand."""
    turn = int(Draws(_KEY, 6, index).between(100, len(sequence) - 100, 1)[0]) if index % 3 == 1 else 0
    turned = sequence[turn:] + sequence[:turn]
    return reverse_complement(turned) if index % 5 == 2 else turned


def _fasta_record(genome: MitoGenome, index: int, sequence: str) -> str:
    stated = (f" haplogroup={genome.haplogroup}", f" [haplogroup={genome.haplogroup}]", "")[index % 3]
    cut = _cut(sequence, index)
    if index % 8 == 5:
        cut = cut.lower()
    elif index % 16 == 6:
        cut = cut.replace("T", "U")
    return f">{genome.name} simulated mitochondrial genome{stated}\n{_lines(cut)}"


def _lines(sequence: str) -> str:
    return "".join(f"{sequence[at : at + _LINE_BASES]}\n" for at in range(0, len(sequence), _LINE_BASES))


def _locus(name: str, length: int) -> str:
    """Return the header of a GenBank record, in the columns of the GenBank release notes, section 3.4."""
    return (
        f"LOCUS       {name:<16} {length:>11} bp    DNA     circular PRI 07-JAN-2024\n"
        f"DEFINITION  {_SPECIES} mitochondrion, complete genome, simulated.\n"
        f"ACCESSION   {name}\nVERSION     {name}.1\nKEYWORDS    .\n"
        f"SOURCE      mitochondrion {_SPECIES}\n  ORGANISM  {_SPECIES}\n            Simulated.\n"
    )


def _genbank_record(genome: MitoGenome, index: int, sequence: str) -> Iterator[str]:
    cut = _cut(sequence, index).lower()
    stated = (f'/haplogroup="{genome.haplogroup}"', f'/note="haplogroup: {genome.haplogroup}"', None)[index % 3]
    qualifiers = [f'/organism="{_SPECIES}"', '/organelle="mitochondrion"', '/mol_type="genomic DNA"', stated]
    yield _locus(genome.name, len(cut))
    yield f"FEATURES             Location/Qualifiers\n     source          1..{len(cut)}\n"
    yield from (f"{'':21}{qualifier}\n" for qualifier in qualifiers if qualifier)
    yield "ORIGIN\n"
    for at in range(0, len(cut), 60):
        blocks = (cut[start : start + 10] for start in range(at, min(at + 60, len(cut)), 10))
        yield f"{at + 1:>9} {' '.join(blocks)}\n"
    yield "//\n"
