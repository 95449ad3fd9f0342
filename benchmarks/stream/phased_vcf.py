"""Inputs of GenVarLoader: a contig, windows of it, and phased genotypes of many samples."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pysam
from numpy.typing import NDArray

from benchmarks.packages.simulated_rows import gnomad_rows
from benchmarks.vcf.memory_tables import write_fasta
from benchmarks.vcf.simulated_genome import simulate_contig
from benchmarks.vcf.vcf_output import open_bgzf
from genolewm_assets.genome import PROFILES, Contig

_PROFILE = PROFILES["default"]
_GENOTYPES = np.frombuffer(b"\t0|0\t0|1\t1|0\t1|1", np.uint8).reshape(4, 4)


@dataclass(frozen=True, slots=True)
class PhasedShape:
    """Sizes of the phased VCF: bases of the contig, common alleles per million bases, and samples."""

    contig: Contig
    per_mbp: int
    samples: int


def write_phased(folder: Path, shape: PhasedShape) -> None:
    """Write ``phased.fa.gz``, ``phased.vcf.gz`` and ``regions.bed``, the windows of the contig, into a folder."""
    contig, bases = shape.contig, simulate_contig(shape.contig)
    write_fasta(folder / "phased.fa.gz", [(contig.name, bases)])
    tiled = _PROFILE.tile(contig)
    spans = zip(tiled.start.tolist(), tiled.end.tolist(), strict=True)
    (folder / "regions.bed").write_text("".join(f"{contig.name}\t{start}\t{end}\n" for start, end in spans))
    alleles = gnomad_rows(contig, bases, per_mbp=shape.per_mbp)
    carried = _carried(np.maximum(alleles["af"].to_numpy(), 0.01), shape.samples)
    rows = zip(*(alleles[name].to_pylist() for name in ("pos", "ref", "alt")), carried, strict=True)
    vcf = folder / "phased.vcf.gz"
    with open_bgzf(vcf) as target:
        target.write(_header(shape).encode())
        for pos, ref, alt, text in rows:
            line = f"{contig.name}\t{pos}\t.\t{ref}\t{alt}\t.\tPASS\t.\tGT"
            target.write(line.encode() + _GENOTYPES[text].tobytes() + b"\n")
    pysam.tabix_index(str(vcf), preset="vcf", force=True)


def _carried(af: NDArray[np.float64], samples: int) -> NDArray[np.uint8]:
    """Return which copies of every sample carry each allele, 0 to 3: uint8, shape (n_alleles, samples)."""
    rng = np.random.default_rng(11)
    copies = [rng.random((len(af), samples), dtype=np.float32) < af[:, None] for _ in range(2)]
    return copies[0].astype(np.uint8) * 2 + copies[1]


def _header(shape: PhasedShape) -> str:
    names = "\t".join(f"S{number}" for number in range(shape.samples))
    return (
        f"##fileformat=VCFv4.2\n##contig=<ID={shape.contig.name},length={shape.contig.length}>\n"
        '##FILTER=<ID=PASS,Description="All filters passed">\n'
        '##FORMAT=<ID=GT,Number=1,Type=String,Description="Genotype">\n'
        f"#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\t{names}\n"
    )
