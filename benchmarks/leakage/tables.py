"""Cost of a search for held-out sequence by the number of windows, beside minimap2 on the same windows."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pysam

from benchmarks.vcf.tables import Setting
from benchmarks.workers import Job, measure_fresh

#: Held-out bases, bases that are not held out, and windows; half of all bases are in lower case.
HELD_BP, FREE_BP, WINDOWS = 64_000_000, 32_000_000, 1_000_000
_MIB = 1 << 20
_STRETCH_BP = 500


def leakage_table(setting: Setting, *, shrink: int) -> Iterator[str]:
    """Yield the lines of the table; the minimap2 job has a hundredth of the windows."""
    fasta = setting.folder / f"leakage_{shrink}.fa"
    if not fasta.exists():
        _write_fasta(fasta, shrink)
    size = f"{HELD_BP / shrink / 1e6:.0f} Mbp"
    yield f"\n| search of {size} | windows | found | wall s | CPU s | windows/CPU s | peak MiB |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    sizes = [(name, WINDOWS // shrink // part) for part in (16, 4, 1) for name in ("filter", "audit")]
    sizes.append(("minimap2", WINDOWS // shrink // 100))
    for name, number in sizes:
        job = Job(f"{name} {number}", [sys.executable, "-m", "benchmarks.leakage.jobs", name, str(fasta), str(number)])
        for figures in measure_fresh([job], runs=1):
            if figures.failure:
                yield f"| {name} | {number:,} | failed: {figures.failure} | | | | |"
                continue
            cost = f"{figures.wall_s:.0f} | {figures.cpu_s:.0f} | {number / figures.cpu_s:,.0f}"
            yield f"| {name} | {number:,} | {figures.records:,} | {cost} | {figures.peak_bytes / _MIB:,.0f} |"


def _write_fasta(path: Path, shrink: int) -> None:
    rng = np.random.default_rng(0)
    letters = np.frombuffer(b"ACGTacgt", np.uint8)
    unfinished = path.with_suffix(".unfinished")
    with unfinished.open("wb") as out:
        for name, size in (("chr17", FREE_BP), ("chr20", HELD_BP)):
            n = size // shrink // _STRETCH_BP * _STRETCH_BP
            lower = np.repeat(rng.integers(0, 2, n // _STRETCH_BP, dtype=np.uint8) * 4, _STRETCH_BP)
            out.write(b">%s\n" % name.encode())
            out.write(letters[rng.integers(0, 4, n, dtype=np.uint8) + lower].tobytes() + b"\n")
    unfinished.rename(path)
    pysam.faidx(str(path))
