"""Cost of a file that spells its contigs in two ways, beside the same file with one spelling."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from isal import igzip

from benchmarks.vcf.clinvar_vcf import CONTIGS
from benchmarks.vcf.gnomad_vcf import CONTIG
from benchmarks.vcf.inputs import BenchmarkInput, make_input
from benchmarks.vcf.memory_tables import write_fasta
from benchmarks.vcf.tables import Setting
from benchmarks.vcf.vcf_output import open_bgzf
from benchmarks.workers import Figures, Job, WorkerError, measure, prime

_RECORDS = {"slim": 500_000, "clinvar": 500_000}


def spelling_table(setting: Setting, *, shrink: int) -> Iterator[str]:
    """Measure scans, shard builders and ``prepare`` commands on both files, and yield the lines of the table."""
    yield "\n| job | records | one spelling, CPU s | two spellings, CPU s | ratio |\n|---|---:|---:|---:|---:|"
    for kind, records in _RECORDS.items():
        made = make_input(setting.folder, kind, records // shrink)
        mixed, fasta = made.vcf.with_name(f"mixed_{made.vcf.name}"), made.bases.with_suffix(".fa.gz")
        _mix(made.vcf, mixed)
        _write_bases(made, fasta)
        for name, bases in (("scan", made.bases), (made.source, made.bases), (f"prepare-{made.source}", fasta)):
            jobs = [_job(name, vcf, bases, setting) for vcf in (made.vcf, mixed)]
            try:
                prime(jobs[0])
            except WorkerError as err:
                print(f"{name}: {err}", file=sys.stderr)
            yield _row(f"{name}, {kind}", measure(jobs, runs=setting.runs), made.records)
        mixed.unlink()
        for path in fasta.parent.glob(f"{fasta.name}*"):
            path.unlink()


def _mix(vcf: Path, mixed: Path) -> None:
    """Write a copy of a VCF in which every other record has the other spelling, with or without ``chr``."""
    with igzip.open(vcf, "rb") as lines, open_bgzf(mixed) as target:
        records = 0
        for line in lines:
            records += not line.startswith(b"#")
            if line.startswith(b"#") or records % 2 == 0:
                target.write(line)
            elif line.startswith(b"chr"):
                target.write(line.removeprefix(b"chr"))
            else:
                target.write(b"chr" + line)


def _write_bases(made: BenchmarkInput, fasta: Path) -> None:
    text, contigs = made.bases.read_bytes(), list(CONTIGS) if made.source == "clinvar" else [CONTIG]
    each = len(text) // len(contigs)
    write_fasta(fasta, ((contig.name, text[at * each : (at + 1) * each]) for at, contig in enumerate(contigs)))


def _job(name: str, vcf: Path, bases: Path, setting: Setting) -> Job:
    arguments = [name, str(vcf), str(bases), str(setting.folder / "out")]
    return Job(name, [sys.executable, "-m", "benchmarks.vcf.own_jobs", *arguments])


def _row(name: str, figures: list[Figures], records: int) -> str:
    failure = next((each.failure for each in figures if each.failure), "")
    if failure:
        return f"| {name} | {records:,} | not measured: {failure.replace('|', '/')} | | |"
    one, two = figures
    ratio = two.cpu_s / one.cpu_s
    return f"| {name} | {records:,} | {one.cpu_s:.2f} | {two.cpu_s:.2f} | {ratio:.2f} |"
