"""Memory of the steps ``packages/split`` and ``packages/current`` at a tenth of the genome."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.packages.root import TENTH, make_root
from benchmarks.vcf.tables import Setting
from benchmarks.workers import Job, measure_fresh

_MIB = 1 << 20


def package_memory_table(setting: Setting, *, shrink: int) -> Iterator[str]:
    """Make a root with the inputs of a package, run each step in new processes, and yield the lines of the table."""
    folder = setting.folder / f"packages_{shrink}"
    if not folder.exists():
        unfinished = Path(tempfile.mkdtemp(dir=setting.folder)) / folder.name
        make_root(unfinished, shrink=shrink)
        unfinished.rename(folder)
    size = f"{sum(each.length for each in TENTH) / shrink / 1e6:.0f} Mbp"
    yield "\n| step | windows | contigs | wall s | CPU s | peak MiB | above imports MiB |"
    yield "|---|---:|---|---:|---:|---:|---:|"
    command = [sys.executable, "-m", "benchmarks.packages.jobs"]
    jobs = [Job(f"packages/{step}", [*command, step, str(folder)]) for step in ("split", "current")]
    for figures in measure_fresh(jobs, runs=setting.runs):
        if figures.failure:
            yield f"| {figures.name} | | {size} | failed: {figures.failure} | | | |"
            continue
        cost = f"{figures.wall_s:.1f} | {figures.cpu_s:.1f} | {figures.peak_bytes / _MIB:,.0f}"
        above = f"{(figures.peak_bytes - figures.loaded_bytes) / _MIB:,.0f}"
        yield f"| {figures.name} ({figures.version}) | {figures.records or 0:,} | {size} | {cost} | {above} |"
