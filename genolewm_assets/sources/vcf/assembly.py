"""Check that the header of a VCF states no other assembly than the genome's.

Assemblies are stated by length, ``assembly``, ``md5`` and ``URL`` of contigs, and by lines such as ``##reference``,
``##assembly`` or ``##genome_build``. A file that was lifted over may keep its old lines beside one that names the new
assembly; the new one counts. A text that names several assemblies, such as ``GRCh38 (lifted from b37)``, contradicts
none of them. Lines on annotation and commands are not read: they name other data and inputs too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from genolewm_assets.errors import VcfError
from genolewm_assets.genome import (
    ASSEMBLIES,
    ContigSet,
    assemblies_of_genome,
    assemblies_of_length,
    find_assemblies,
    name_chromosome,
)
from genolewm_assets.sources.vcf.header import VcfHeader

#: Keys of the lines in which CrossMap names the assembly that it lifted over to.
_NEW_GENOME = ("targetRefGenome", "new_reference_genome")
_LONGEST_KEY = 100
#: Keys of the lines that name the assembly of the coordinates: made of these words, and with one of the first four.
_GENOME_KEY = re.compile(
    r"(?=.*(?:ref|assembly|genome|build))(?:(?:ref(?:erence)?|assembly|genome|build|target|new|source|human|ncbi|fasta"
    r"|sequence|file|path|name|id|version|ur[il])[-_. ]?)+",
    re.IGNORECASE,
)


class _Statement(NamedTuple):
    """A text of the header, where it stands, and the assemblies that it names."""

    where: str
    text: str
    assemblies: frozenset[str]


def check_assembly(header: VcfHeader, contigs: ContigSet, *, where: str) -> None:
    """Raise :class:`VcfError` if the header states another assembly than that of the genome.

    Parameters
    ----------
    header
        Header of the file.
    contigs
        Contigs of the genome. A contig that the header gives another length is an error, known assembly or not.
    where
        Name of the file in the message.
    """
    genome = assemblies_of_genome(contigs)
    _check_lengths(header, contigs, genome, where)
    for statement in (*_contig_statements(header, genome), *_reference_statements(header, genome)):
        if statement.assemblies and not statement.assemblies & genome:
            raise VcfError(
                where,
                f"the header states another assembly in {statement.where}",
                expected=_names(genome),
                got=repr(statement.text[:200]),
                remedy=_remedy(genome),
            )


def _check_lengths(header: VcfHeader, contigs: ContigSet, genome: frozenset[str], where: str) -> None:
    # Not ContigSet.resolve: it searches for similar names of each of the thousands of decoys that a header may declare.
    spellings = {spelling: contig for contig in contigs for spelling in (contig.name, *contig.aliases)}
    for name, length in header.contigs.items():
        if length is None:
            continue
        contig, chromosome = spellings.get(name), name_chromosome(name)
        found = assemblies_of_length(chromosome, length) if chromosome else frozenset()
        expected = contig.length if contig else None
        if expected is None and chromosome and found and not found & genome:
            expected = ASSEMBLIES[min(genome)].get(chromosome)
        if expected is not None and length != expected:
            raise VcfError(
                where,
                f"the header gives contig {name!r} the length of another assembly",
                expected=f"{expected} bp",
                got=f"{length} bp" + (f" ({_names(found)})" if found else ""),
                remedy=_remedy(genome),
            )


def _contig_statements(header: VcfHeader, genome: frozenset[str]) -> Iterator[_Statement]:
    """Yield what attributes of the contigs state, once for each text, except of chrM that assemblies share."""
    seen: set[str] = set()
    for name, text in header.assemblies:
        if text not in seen and not _is_shared(name, text, genome):
            seen.add(text)
            yield _Statement(f"##contig of {name!r}", text, find_assemblies(text))


def _reference_statements(header: VcfHeader, genome: frozenset[str]) -> Iterator[_Statement]:
    """Yield what the lines of the genome state, unless the file declares only chrM that assemblies share."""
    lines = [(key, text) for key, text in header.lines if len(key) < _LONGEST_KEY and _GENOME_KEY.fullmatch(key)]
    for key, text in [line for line in lines if line[0] in _NEW_GENOME] or lines:
        stated = f"{key}={text}"  # "NCBI_build=37" names an assembly, "37" none
        if not header.contigs or not all(_is_shared(name, stated, genome) for name in header.contigs):
            yield _Statement(f"##{key}", text, find_assemblies(stated))


def _is_shared(contig: str, text: str, genome: frozenset[str]) -> bool:
    """Return whether a contig is the same sequence in the genome and in the assemblies that a text names: rCRS.

    The chrM file of gnomAD v3.1, which is on GRCh38, declares ``##contig=<ID=MT,length=16569,assembly=GRCh37>``.
    """
    if name_chromosome(contig) != "chrM":
        return False
    return all("chrM" in ASSEMBLIES[each] for each in find_assemblies(text) | genome)


def _names(assemblies: frozenset[str]) -> str:
    return " or ".join(sorted(assemblies))


def _remedy(genome: frozenset[str]) -> str:
    return f"Use the file for {_names(genome)}, or a liftover to it"
