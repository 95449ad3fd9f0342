"""Measurements of a package of a million windows as Markdown tables."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.stream.simulated_package import PROFILE, PackageShape, write_inputs
from benchmarks.stream.size_jobs import TEST, VALIDATION
from benchmarks.vcf.tables import Setting
from benchmarks.workers import Job, measure_once
from genolewm_assets.genome import GRCH38, Contig

_WINDOWS, _ALLELES = 1_000_000, 10_000_000
#: Values of a state: few, so that all rows of states are there, but not their terabytes.
_HIDDEN = 8
_LEAST_BP = 100_000
_MIB = 1 << 20
_ROOT = Path(__file__).parent.parent.parent
_PARTS = {"process": "one process", "fork": "loader, one forked worker", "spawn": "loader, one spawned worker"}
_KINDS = ("RssAnon", "VmRSS", "Pss")
_PROCESSES = {"imports": "before opening", "process": "the process", "parent": "parent", "worker": "worker"}


def size_tables(setting: Setting, *, shrink: int) -> Iterator[str]:
    """Make the tables of a package, measure writing and opening it, and yield the lines of the tables."""
    folder, shape = setting.folder / f"size_{shrink}", large_shape(shrink)
    if not folder.exists():
        setting.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=setting.folder) as scratch:
            unfinished = Path(scratch) / folder.name
            write_inputs(unfinished, shape)
            unfinished.rename(folder)
    yield from written_table(folder, shape)
    yield from opened_table(folder, setting)


def large_shape(shrink: int) -> PackageShape:
    """Return the sizes of a package of the contigs of GRCh38, with corpus windows up to a million in all."""
    contigs = tuple(Contig(each.name, max(_LEAST_BP, each.length // shrink)) for each in GRCH38 if not each.circular)
    # Contigs of one length would have the same bases.
    contigs = tuple(Contig(each.name, each.length + number) for number, each in enumerate(contigs))
    bases = sum(each.length for each in contigs)
    windows = sum(len(PROFILE.tile(each)) for each in contigs)
    corpus = max(_WINDOWS // shrink - windows, windows // 2)
    return PackageShape(contigs, corpus, round(_ALLELES / shrink / bases * 1e6), _HIDDEN)


def written_table(folder: Path, shape: PackageShape) -> Iterator[str]:
    """Measure writing the package once, with its checks, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.stream.size_jobs"]
    figures = measure_once(Job("packages/split", [*command, "write", str(folder)]))
    bases = sum(each.length for each in shape.contigs)
    yield "\n| step | windows | common alleles | wall s | CPU s | peak MiB | above imports MiB | aim |"
    yield "|---|---:|---:|---:|---:|---:|---:|---|"
    alleles = f"{bases * shape.gnomad_per_mbp // 1_000_000:,}"
    if figures.failure:
        yield f"| {figures.name} | | {alleles} | failed: {figures.failure.replace('|', '/')} | | | | |"
        return
    above = (figures.peak_bytes - figures.loaded_bytes) / _MIB
    yield (
        f"| {figures.name}, checks included ({figures.version}) | {figures.records or 0:,} | {alleles} "
        f"| {figures.wall_s:.0f} | {figures.cpu_s:.0f} | {figures.peak_bytes / _MIB:,.0f} | {above:,.0f} "
        "| peak under 2,048 MiB |"
    )


def opened_table(folder: Path, setting: Setting) -> Iterator[str]:
    """Measure opening the package in new processes, their first batch, and their largest sizes during 256 batches."""
    yield "\n| job | open s | first batch s | tuples per CPU s | process | RssAnon MiB | VmRSS MiB | PSS MiB |"
    yield "|---|---:|---:|---:|---|---:|---:|---:|"
    seconds, failure = run_part("first", folder)
    opened = f"failed: {failure}" if failure else f"{seconds['open_s']:.2f}"
    yield f"| first opening, which reads every byte | {opened} | | | | | | |"
    for part, title in _PARTS.items():
        runs = [run_part(part, folder) for _ in range(setting.runs)]
        if failures := [failure for _, failure in runs if failure]:
            yield f"| {title} | failed: {failures[0]} | | | | | | |"
            continue
        yield from _opened_rows(title, [figures for figures, _ in runs])
    yield "\nAims: open under 1 s, first batch under 2 s; RssAnon of process, parent and worker under 600 MB (572 MiB)."
    yield f"Held out: {', '.join((*VALIDATION, *TEST))}. States: {_HIDDEN} values of each block."


def _opened_rows(title: str, runs: Sequence[dict[str, float]]) -> Iterator[str]:
    found = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    rate = f"{found['tuples'] / found['cpu_s']:,.0f}" if "cpu_s" in found else ""
    seconds = f"{found['open_s']:.3f} | {found['first_batch_s']:.3f} | {rate}"
    for name, shown in _PROCESSES.items():
        if f"{name}_VmRSS" in found:
            sizes = " | ".join(f"{found[f'{name}_{kind}'] / _MIB:,.0f}" for kind in _KINDS)
            yield f"| {title} | {seconds} | {shown} | {sizes} |"
            title, seconds = "", " |  | "


def run_part(part: str, folder: Path) -> tuple[dict[str, float], str]:
    """Return the figures that a new process prints, or the last line of its error."""
    command = [sys.executable, "-m", "benchmarks.stream.size_jobs", part, str(folder)]
    ended = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    if ended.returncode:
        said = ended.stderr.strip().splitlines() or [f"the process ended with status {ended.returncode}"]
        return {}, said[-1].replace("|", "/")
    found: dict[str, float] = json.loads(ended.stdout)
    return found, ""
