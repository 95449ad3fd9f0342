"""The referee of normalisation: bcftools norm, run through pysam on a VCF written here."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pysam
import pysam.bcftools

Allele = tuple[str, int, str, str]


def read_alleles(vcf: Path) -> Iterator[Allele]:
    """Yield (chrom, pos, ref, alt) of each sequence variant, read without any VCF library, names canonical."""
    with gzip.open(vcf, "rt") as lines:
        for line in lines:
            if not line.startswith("#"):
                chrom, pos, _, ref, alts = line.split("\t", 5)[:5]
                for alt in alts.split(","):
                    if set(alt) <= set("ACGT") and alt != ref:
                        yield "chr" + chrom.removeprefix("chr"), int(pos), ref, alt


def write_fasta(path: Path, contigs: Mapping[str, str]) -> Path:
    path.write_text("".join(f">{name}\n{sequence}\n" for name, sequence in contigs.items()))
    pysam.faidx(str(path))
    return path


def bcftools_norm(fasta: Path, alleles: Iterable[Allele], work: Path) -> list[Allele | None]:
    """Normalise each allele by itself; None where REF differs from the reference."""
    rows = list(alleles)
    with pysam.FastaFile(str(fasta)) as genome:
        header = [f"##contig=<ID={n},length={genome.get_reference_length(n)}>" for n in genome.references]
    body = [f"{chrom}\t{pos}\t{i}\t{ref}\t{alt}\t.\t.\t." for i, (chrom, pos, ref, alt) in enumerate(rows)]
    vcf = work / "alleles.vcf"
    columns = "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO"
    vcf.write_text("\n".join(["##fileformat=VCFv4.2", *header, columns, *body]) + "\n")
    output = pysam.bcftools.norm("--check-ref", "x", "--fasta-ref", str(fasta), str(vcf), catch_stdout=True)
    normal: list[Allele | None] = [None] * len(rows)
    for line in output.splitlines():
        if not line.startswith("#"):
            chrom, pos, number, ref, alt = line.split("\t", 5)[:5]
            normal[int(number)] = (chrom, int(pos), ref, alt)
    return normal
