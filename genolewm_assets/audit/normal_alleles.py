"""Alleles in the normal form that ``bcftools norm`` gives them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pysam.bcftools
from pysam.utils import SamtoolsError
from pysam.version import __bcftools_version__, __version__

from genolewm_assets.audit.reading.contig_names import canonical_name
from genolewm_assets.audit.reading.reference import Reference
from genolewm_assets.errors import ResourceError

#: Records that bcftools reads at once.
BATCH = 200_000
#: The program, for reports.
BCFTOOLS = f"bcftools {__bcftools_version__} norm (of pysam {__version__})"

_HEADER = "##fileformat=VCFv4.2\n"
_COLUMNS = "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\n"
_BASES = frozenset("ACGT")


class Allele(NamedTuple):
    """An allele as VCF writes it: canonical contig, 1-based position, upper-case bases."""

    chrom: str
    pos: int
    ref: str
    alt: str

    def __str__(self) -> str:
        return f"{self.chrom}:{self.pos}:{self.ref}:{self.alt}"


def allele_of(row: Mapping[str, Any]) -> Allele:
    """Return the allele of a row as it is written, in upper case and with the canonical name of its contig."""
    return Allele(canonical_name(row["chrom"]), row["pos"], row["ref"].upper(), row["alt"].upper())


def normalise_alleles(alleles: Iterable[Allele], reference: Reference) -> dict[Allele, Allele | None]:
    """Return the normal form of every allele, left-aligned and trimmed by bcftools.

    None where there is none: the contig is not in the reference, REF differs from it, or a base is not A, C, G or T.
    """
    normal: dict[Allele, Allele | None] = dict.fromkeys(alleles)
    usable = sorted(allele for allele in normal if _is_usable(allele, reference))
    for start in range(0, len(usable), BATCH):
        part = usable[start : start + BATCH]
        normal.update(zip(part, _run(part, reference), strict=True))
    return normal


def _is_usable(allele: Allele, reference: Reference) -> bool:
    bases = bool(allele.ref) and bool(allele.alt) and _BASES.issuperset(allele.ref + allele.alt)
    return bases and allele.ref != allele.alt and allele.chrom in reference and allele.pos >= 1


def _run(alleles: list[Allele], reference: Reference) -> list[Allele | None]:
    contigs = {allele.chrom: reference.own_name(allele.chrom) for allele in alleles}
    canonical = {own: name for name, own in contigs.items()}
    normal: list[Allele | None] = [None] * len(alleles)
    with tempfile.TemporaryDirectory(prefix="genolewm-audit-") as folder:
        given, written = Path(folder) / "alleles.vcf", Path(folder) / "normal.vcf"
        with given.open("w") as out:
            out.write(_HEADER)
            out.writelines(f"##contig=<ID={own},length={reference.length(name)}>\n" for name, own in contigs.items())
            out.write(_COLUMNS)
            for number, (chrom, pos, ref, alt) in enumerate(alleles):
                out.write(f"{contigs[chrom]}\t{pos}\t{number}\t{ref}\t{alt}\t.\t.\t.\n")
        # A REF that differs from the FASTA is left out (x) and stays None.
        options = ("--check-ref", "x", "--fasta-ref", str(reference.path), "--output", str(written), str(given))
        try:
            pysam.bcftools.norm(*options, catch_stdout=False)
        except SamtoolsError as err:
            raise ResourceError(str(reference.path), f"bcftools norm failed ({err})") from err
        with written.open() as lines:
            for line in lines:
                if not line.startswith("#"):
                    own, at, row, ref, alt = line.split("\t", 5)[:5]
                    normal[int(row)] = Allele(canonical[own], int(at), ref.upper(), alt.upper())
    return normal
