"""Memory of ``reference/genome``, ``windows/index`` and ``corpus/windows`` on a contig of the length of chr1."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.steps.window_inputs import SOURCE, write_catalog
from benchmarks.vcf.memory_tables import LONGEST
from benchmarks.vcf.tables import Setting
from benchmarks.workers import Figures, Job, measure_fresh
from genolewm_assets.genome import Contig

#: Records of the corpus source, each of which gives one window.
_RECORDS = 6_000


def window_memory_table(setting: Setting, *, shrink: int) -> Iterator[str]:
    """Measure the three steps on inputs generated for them, and yield the lines of the table."""
    yield "\n| step | size | wall s | CPU s | MiB after imports | peak MiB above |\n|---|---|---:|---:|---:|---:|"
    contig, records = Contig(LONGEST.name, LONGEST.length // shrink), _RECORDS // shrink
    folder = setting.folder / "steps"
    catalog = write_catalog(folder, contig, records=records)
    size = f"{contig.length / 1e6:.0f} Mbp"
    for asset, partition, what in (
        ("reference/genome", None, size),
        ("windows/index", contig.name, size),
        ("corpus/windows", SOURCE, f"{records:,} windows, {size}"),
    ):
        yield step_row(measure_step(catalog, folder / "root", asset, partition), what)
    shutil.rmtree(folder)


def measure_step(catalog: Path, root: Path, asset: str, partition: str | None = None, *, runs: int = 1) -> Figures:
    """Run a step, each time in a new process: once for its memory, then ``runs`` times for its time."""
    arguments = [str(catalog), str(root), asset, *([partition] if partition else [])]
    (figures,) = measure_fresh([Job(asset, [sys.executable, "-m", "benchmarks.steps.step_job", *arguments])], runs=runs)
    return figures


def step_row(figures: Figures, what: str) -> str:
    """Return a line of the table."""
    if figures.failure:
        return f"| {figures.name} | {what} | failed: {figures.failure} | | | |"
    loaded, peak = figures.loaded_bytes / (1 << 20), figures.peak_bytes / (1 << 20)
    costs = f"{figures.wall_s:.1f} | {figures.cpu_s:.1f} | {loaded:,.0f} | {peak - loaded:,.0f}"
    return f"| {figures.name} ({figures.version}) | {what} | {costs} |"
