"""Measurements of mitochondrial genomes, tokens and items as Markdown tables."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping

from benchmarks.workers import Figures, Job, measure, measure_fresh

GENOMES = 1_000
_ITEMS: Mapping[str, str] = {
    "window": "window, in memory",
    "window_het": "window with het and coordinates, in memory",
    "window_store": "window, from an array store",
    "variant": "variant",
    "copies": "four copies alone",
    "tensors": "four tensors alone",
}


def mito_tables(runs: int, *, shrink: int) -> Iterator[str]:
    """Measure all parts on one core and yield the lines of their tables."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[:1])
    try:
        yield from _genome_table(runs, GENOMES // shrink)
        yield from _token_table(runs, GENOMES // shrink)
        yield from _item_table(runs, GENOMES // shrink)
    finally:
        os.sched_setaffinity(0, allowed)


def _genome_table(runs: int, genomes: int) -> Iterator[str]:
    (row,) = measure([_job("genomes", genomes, "align", "aligned to the reference circle")], runs=runs)
    yield "\n**mitochondrial genomes, one core**\n"
    yield "| job | CPU ms per genome | lowest to highest |"
    yield "|---|---:|---:|"
    if row.failure:
        yield _failed(row.name, row, columns=3)
        return
    each = 1e3 / (row.records or 1)
    yield f"| {row.name} | {row.cpu_s * each:.1f} | {min(row.cpu) * each:.1f} to {max(row.cpu) * each:.1f} |"


def _token_table(runs: int, genomes: int) -> Iterator[str]:
    job = _job("tokens", genomes, "batch", "tokenize_batch")
    (warm,), (fresh,) = measure([job], runs=runs), measure_fresh([job], runs=runs)
    yield f"\n**mitochondrial tokens: {genomes:,} genomes, k = 6, circular, one core**\n"
    yield "| job | CPU s | lowest to highest | million tokens/s of CPU time | MB above the input |"
    yield "|---|---:|---:|---:|---:|"
    for name, row in (("first run of a process", fresh), ("further runs", warm)):
        if row.failure:
            yield _failed(name, row, columns=5)
            continue
        rate, above = (row.records or 0) / row.cpu_s / 1e6, (row.peak_bytes - row.loaded_bytes) / 1e6
        yield f"| {name} | {row.cpu_s:.3f} | {min(row.cpu):.3f} to {max(row.cpu):.3f} | {rate:,.0f} | {above:,.0f} |"


def _item_table(runs: int, genomes: int) -> Iterator[str]:
    jobs = [_job("items", genomes, task, name) for task, name in _ITEMS.items()]
    yield "\n**mitochondrial items, one core**\n"
    yield "| item | CPU us | lowest to highest |"
    yield "|---|---:|---:|"
    for row in measure(jobs, runs=runs):
        if row.failure:
            yield _failed(row.name, row, columns=3)
            continue
        each = 1e6 / (row.records or 1)
        yield f"| {row.name} | {row.cpu_s * each:.2f} | {min(row.cpu) * each:.2f} to {max(row.cpu) * each:.2f} |"


def _job(part: str, genomes: int, task: str, name: str) -> Job:
    return Job(name, [sys.executable, "-m", "benchmarks.mito.jobs", part, str(genomes)], task=task)


def _failed(name: str, row: Figures, *, columns: int) -> str:
    return f"| {name} | not measured: {row.failure.replace('|', '/')} |" + " |" * (columns - 2)
