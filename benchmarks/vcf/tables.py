"""Measurements of shard builds and VCF readers as Markdown tables."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.vcf.inputs import SCALED_FROM, BenchmarkInput, make_input
from benchmarks.vcf.peer_jobs import PEERS
from benchmarks.workers import Figures, Job, WorkerError, measure, prime

INFLATE, OURS = "isal, inflate only, one thread", "genolewm_assets, finished shard"
NO_PEERS = "no environment of the peers was named with --peers-python"
_MIB = 1 << 20
#: Peers that the project's own environment or the system contains.
_INSTALLED = ("pysam", "bcftools")
_TASKS = {"geno-lewm": "its own shard"}


@dataclass(frozen=True, slots=True)
class Setting:
    """Settings of a measurement.

    Attributes
    ----------
    folder
        Folder of the inputs and, temporarily, of the outputs.
    peers_python
        Interpreter of the environment with the peers; if None, the peers are listed as not measured.
    runs
        Runs of each job after its warm-up.
    keep
        Whether the large inputs of the scaling table stay in the folder.
    """

    folder: Path
    peers_python: Path | None
    runs: int
    keep: bool


def speed_table(made: BenchmarkInput, setting: Setting) -> Iterator[str]:
    """Measure all jobs on one input and yield the lines of its table."""
    jobs = [*_own_jobs(made, setting), *_peer_jobs(made, setting)]
    indexed = made.with_index()
    jobs.insert(2, _own_job(f"{OURS}, indexed file", indexed, setting))
    jobs.append(_peer_job("polars-bio", indexed, setting, note=", indexed file"))
    _prime(jobs[1:3])
    figures = measure(jobs, runs=setting.runs)
    yield f"\n**{made.title}**\n"
    yield "| job | wall s | lowest to highest | CPU s | records/s | inflate = 1 | ours = 1 | peak MiB |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for row in figures:
        yield _speed_row(row, figures, made.records)


def scaling_table(kind: str, setting: Setting, *, shrink: int) -> Iterator[str]:
    """Measure the project's jobs on 1, 4 and 16 times the records and yield the lines of the table."""
    yield f"\n**{kind}: cost by size**\n"
    yield "| records | text MB | job | wall s | CPU s | wall us/record | 1x = 1 | inflate = 1 | peak MiB |"
    yield "|---:|---:|---|---:|---:|---:|---:|---:|---:|"
    smallest: dict[str, float] = {}
    for times in (1, 4, 16):
        made = make_input(setting.folder, kind, times * SCALED_FROM[kind] // shrink)
        jobs = _own_jobs(made, setting)
        _prime(jobs[1:])
        figures = measure(jobs, runs=setting.runs)
        for row in figures:
            yield _scaling_row(row, figures[0], made, smallest)
        if not setting.keep:
            made.remove()


def _scaling_row(row: Figures, inflate: Figures, made: BenchmarkInput, smallest: dict[str, float]) -> str:
    size = f"| {made.records:,} | {made.text_bytes / 1e6:,.0f} | {_label(row)} "
    if row.failure:
        return f"{size}| failed: {row.failure} |" + " |" * 5
    each = row.wall_s / made.records * 1e6
    relative = each / smallest.setdefault(row.name, each)
    ratio = "" if inflate.failure else f"{row.wall_s / inflate.wall_s:.2f}"
    costs = f"| {row.wall_s:.2f} | {row.cpu_s:.2f} | {each:.2f} | {relative:.2f} | {ratio} "
    return f"{size}{costs}| {row.peak_bytes / _MIB:,.0f} |"


def _speed_row(row: Figures, figures: Sequence[Figures], records: int) -> str:
    if row.failure:
        return f"| {_label(row)} | not measured: {row.failure.replace('|', '/')} |" + " |" * 6
    named = {each.name: each for each in figures if not each.failure}
    ratios = (f"{row.wall_s / named[name].wall_s:.2f}" if name in named else "" for name in (INFLATE, OURS))
    read = "" if row.records in {None, records} else f", which read {row.records:,} records"
    return (
        f"| {_label(row)}{read} | {row.wall_s:.2f} | {min(row.wall):.2f} to {max(row.wall):.2f} | {row.cpu_s:.2f} "
        f"| {records / row.wall_s:,.0f} | {' | '.join(ratios)} | {row.peak_bytes / _MIB:,.0f} |"
    )


def _label(row: Figures) -> str:
    return f"{row.name} ({row.version})" if row.version else row.name


def _own_jobs(made: BenchmarkInput, setting: Setting) -> list[Job]:
    return [_own_job(INFLATE, made, setting, job="inflate"), _own_job(OURS, made, setting)]


def _own_job(name: str, made: BenchmarkInput, setting: Setting, *, job: str | None = None) -> Job:
    arguments = [job or made.source, str(made.vcf), str(made.bases), str(setting.folder / "out")]
    return Job(name, [sys.executable, "-m", "benchmarks.vcf.own_jobs", *arguments])


def _peer_jobs(made: BenchmarkInput, setting: Setting) -> list[Job]:
    return [_peer_job(name, made, setting) for name in PEERS]


def _peer_job(name: str, made: BenchmarkInput, setting: Setting, *, note: str = "") -> Job:
    title = f"{name}, {_TASKS.get(name, 'reading only')}{note}"
    python = sys.executable if name in _INSTALLED else setting.peers_python
    if python is None:
        return Job(title, (), NO_PEERS)
    arguments = [name, made.source, str(made.vcf), str(setting.folder / "out")]
    return Job(title, [str(python), "-m", "benchmarks.vcf.peer_jobs", *arguments])


def _prime(jobs: Sequence[Job]) -> None:
    for job in jobs:
        try:
            prime(job)
        except WorkerError as err:
            print(f"{job.name}: {err}", file=sys.stderr)
