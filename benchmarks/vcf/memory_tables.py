"""Memory of ``prepare-gnomad`` and ``prepare-clinvar``, from VCF and FASTA to a checked, published shard."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pysam

from benchmarks.vcf.clinvar_vcf import CONTIGS, write_clinvar_vcf
from benchmarks.vcf.gnomad_vcf import GnomadShape, write_gnomad_vcf
from benchmarks.vcf.simulated_genome import simulate_contig
from benchmarks.vcf.tables import Setting
from benchmarks.vcf.vcf_output import open_bgzf
from benchmarks.workers import Job, measure
from genolewm_assets.genome import GRCH38, Contig

#: The longest contig of the genome.
LONGEST = Contig("chr1", GRCH38["chr1"].length)
_GNOMAD_RECORDS, _CLINVAR_RECORDS = 1_000_000, 2_000_000
_LINE_BP = 80


def memory_table(setting: Setting, *, shrink: int) -> Iterator[str]:
    """Measure both commands on files generated for them, and yield the lines of the table."""
    yield "\n| command | records | contigs | wall s | CPU s | peak MiB |\n|---|---:|---|---:|---:|---:|"
    setting.folder.mkdir(parents=True, exist_ok=True)
    vcf, fasta = setting.folder / "memory.vcf.gz", setting.folder / "memory.fa.gz"
    bases = {LONGEST.name: simulate_contig(LONGEST)}
    write_fasta(fasta, bases.items())
    shape = GnomadShape(_GNOMAD_RECORDS // shrink, wide=False, contig=LONGEST)
    write_gnomad_vcf(vcf, bases.pop(LONGEST.name), shape)
    yield _row("prepare-gnomad", vcf, fasta, setting, f"{LONGEST.name}, {LONGEST.length / 1e6:.0f} Mbp")
    bases = {each.name: simulate_contig(each) for each in CONTIGS}
    write_fasta(fasta, bases.items())
    write_clinvar_vcf(vcf, bases, CONTIGS, records=_CLINVAR_RECORDS // shrink)
    yield _row(
        "prepare-clinvar", vcf, fasta, setting, f"{len(CONTIGS.names)} of {CONTIGS['chr1'].length / 1e6:.0f} Mbp"
    )
    for made in setting.folder.glob("memory.*"):
        made.unlink()


def write_fasta(path: Path, bases: Iterable[tuple[str, bytes]]) -> None:
    """Write names and sequences of contigs as a bgzipped FASTA with 80 bases per line, and its index."""
    with open_bgzf(path) as target:
        for name, sequence in bases:
            target.write(f">{name}\n".encode())
            for start in range(0, len(sequence), _LINE_BP):
                target.write(sequence[start : start + _LINE_BP] + b"\n")
    pysam.faidx(str(path))


def _row(command: str, vcf: Path, fasta: Path, setting: Setting, contigs: str) -> str:
    arguments = [command, str(vcf), str(fasta), str(setting.folder / "out")]
    (figures,) = measure(
        [Job(command, [sys.executable, "-m", "benchmarks.vcf.own_jobs", *arguments])], runs=setting.runs
    )
    if figures.failure:
        return f"| {command} | | {contigs} | failed: {figures.failure} | | |"
    costs = f"{figures.wall_s:.2f} | {figures.cpu_s:.2f} | {figures.peak_bytes / (1 << 20):,.0f}"
    return f"| {command} ({figures.version}) | {figures.records:,} | {contigs} | {costs} |"
