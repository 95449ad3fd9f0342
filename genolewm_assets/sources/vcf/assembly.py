"""Check that the header of a VCF states no other assembly than the genome's.

Assemblies are stated by contigs and by lines such as ``##reference``; a file that was lifted over may keep old lines,
so a text that names several contradicts none. GRCh37 and GRCh38 share rCRS as chrM; UCSC's hg19 has NC_001807 of 16,571
bp, so of a file on chrM alone hg19 is another assembly, unless the header gives chrM the length of rCRS.
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
_HG19 = re.compile(r"(?<![a-z0-9])hg[-_ ]*19(?![0-9])", re.IGNORECASE)
#: Names of mitochondrial sequences that are not rCRS; RSRS has the length of rCRS.
_OTHER_CHRM = re.compile(r"(?<![a-z0-9])(?:rsrs|nc_001807|af347015)(?![0-9a-z])", re.IGNORECASE)
_NOT_RCRS = "not rCRS"
_DIGEST = re.compile(r"(?:md5|m5)=([0-9a-f]{32})", re.IGNORECASE)
_REMEDY_OF_CHRM = (
    "Call on rCRS, for UCSC's hg19 has another chrM of 16,571 bp; a header that gives chrM the length 16569 passes"
)
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

    A contig that the header gives another length is an error, known assembly or not; ``where`` is the name of the file.
    """
    genome = assemblies_of_genome(contigs)
    _check_lengths(header, contigs, genome, where)
    named = _Reading.of(header, contigs)
    for statement in (*_contig_statements(header, genome, named), *_reference_statements(header, genome, named)):
        if statement.assemblies and not statement.assemblies & genome:
            is_chrm = _NOT_RCRS in statement.assemblies
            raise VcfError(
                where,
                f"the header states another assembly in {statement.where}",
                expected=f"rCRS (NC_012920.1), chrM of {_names(genome)}" if is_chrm else _names(genome),
                got=repr(statement.text[:200]),
                remedy=_REMEDY_OF_CHRM if is_chrm else _remedy(genome),
            )


class _Reading(NamedTuple):
    """How names of assemblies are understood: ``only_chrm`` if the file is on chrM alone, whose MD5 is ``md5``."""

    only_chrm: bool
    has_rcrs_length: bool
    md5: str | None

    @classmethod
    def of(cls, header: VcfHeader, contigs: ContigSet) -> _Reading:
        circles = [contig for contig in contigs if contig.name == "chrM"]
        lengths = [n for name, n in header.contigs.items() if name_chromosome(name) == "chrM"]
        declared = [*header.contigs] or [contig.name for contig in contigs]
        only_chrm = len(circles) == len(contigs) or all(name_chromosome(name) == "chrM" for name in declared)
        md5 = circles[0].md5 if circles else None
        return cls(only_chrm, bool(circles) and circles[0].length in lengths, md5)

    def find(self, text: str, contig: str | None = None) -> frozenset[str]:
        """Return the assemblies that a text names, and :data:`_NOT_RCRS` if it names another chrM than rCRS."""
        if self.only_chrm or (contig is not None and name_chromosome(contig) == "chrM"):
            digest = _DIGEST.fullmatch(text)
            if _OTHER_CHRM.search(text) or (digest and self.md5 and digest[1].lower() != self.md5):
                return frozenset({_NOT_RCRS})
            if not self.has_rcrs_length and _HG19.search(text) and not find_assemblies(_HG19.sub("", text)):
                return frozenset({_NOT_RCRS})
        return find_assemblies(text)


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


def _contig_statements(header: VcfHeader, genome: frozenset[str], named: _Reading) -> Iterator[_Statement]:
    """Yield what attributes of the contigs state, once for each text, except of chrM that assemblies share."""
    seen: set[tuple[str, frozenset[str]]] = set()
    for name, text in header.assemblies:
        found = named.find(text, name)
        if (text, found) not in seen and not _is_shared(name, found, genome):
            seen.add((text, found))
            yield _Statement(f"##contig of {name!r}", text, found)


def _reference_statements(header: VcfHeader, genome: frozenset[str], named: _Reading) -> Iterator[_Statement]:
    """Yield what the lines of the genome state, unless the file declares only chrM that assemblies share."""
    lines = [(key, text) for key, text in header.lines if len(key) < _LONGEST_KEY and _GENOME_KEY.fullmatch(key)]
    for key, text in [line for line in lines if line[0] in _NEW_GENOME] or lines:
        stated = f"{key}={text}"  # "NCBI_build=37" names an assembly, "37" none
        found = named.find(stated)
        if not header.contigs or not all(_is_shared(name, found, genome) for name in header.contigs):
            yield _Statement(f"##{key}", text, found)


def _is_shared(contig: str, found: frozenset[str], genome: frozenset[str]) -> bool:
    """Return whether a contig is the same sequence in the genome and in the assemblies that a text names: rCRS.

    The chrM file of gnomAD v3.1, which is on GRCh38, declares ``##contig=<ID=MT,length=16569,assembly=GRCh37>``.
    """
    if name_chromosome(contig) != "chrM":
        return False
    return all("chrM" in ASSEMBLIES.get(each, ()) for each in found | genome)


def _names(assemblies: frozenset[str]) -> str:
    return " or ".join(sorted(assemblies))


def _remedy(genome: frozenset[str]) -> str:
    return f"Use the file for {_names(genome)}, or a liftover to it"
