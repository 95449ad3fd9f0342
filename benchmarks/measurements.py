"""Run the measurements and print Markdown tables: ``python -m benchmarks [PART ...]``; the parts are ``PARTS``."""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import pysam

from benchmarks.forensic.tables import forensic_tables
from benchmarks.leakage.tables import leakage_table
from benchmarks.mito.tables import mito_tables
from benchmarks.packages.memory_tables import package_memory_table
from benchmarks.steps.window_memory import window_memory_table
from benchmarks.store.tables import store_tables
from benchmarks.stream.size_tables import size_tables
from benchmarks.stream.tables import stream_tables
from benchmarks.vcf.gnomad_vcf import CONTIG
from benchmarks.vcf.inputs import RECORDS, make_input
from benchmarks.vcf.memory_tables import memory_table
from benchmarks.vcf.simulated_genome import simulate_contig
from benchmarks.vcf.spelling_tables import spelling_table
from benchmarks.vcf.tables import Setting, scaling_table, speed_table
from genolewm_assets.genome import PROFILES
from genolewm_assets.windows.reference.table import build_window_table

PARTS = (
    "speed", "scaling", "memory", "windows", "store", "mito", "spellings", "leakage", "forensic", "stream",
    "size",
)  # fmt: skip


def window_table(runs: int) -> Iterator[str]:
    """Measure the build of a contig's window table (tiling, hashing, composition); yield the lines of the results."""
    bases = simulate_contig(CONTIG)
    wall = []
    for _ in range(runs + 1):
        started = time.perf_counter()
        build_window_table(CONTIG, bases, PROFILES["default"], {})
        wall.append(time.perf_counter() - started)
    median = statistics.median(wall[1:])
    yield "\n| job | wall s | Mbp/s |\n|---|---:|---:|"
    yield f"| windows of {len(bases) / 1e6:.0f} Mbp | {median:.3f} | {len(bases) / median / 1e6:.0f} |"


def _machine() -> str:
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("numpy", "pyarrow", "isal"))
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    return f"{platform.machine()}, {cores} cores, load {load:.1f}, Python {platform.python_version()}, {versions}"


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        epilog="`python -m benchmarks gpu --help`: the kit for an accelerator; `genome --help`: growth of every step",
    )
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}; default: speed windows")
    parser.add_argument("--inputs", type=Path, help="folder that keeps the generated files; default: a temporary one")
    parser.add_argument(
        "--peers-python",
        type=Path,
        default=os.environ.get("BENCHMARK_PEERS_PYTHON"),
        help="interpreter of the environment with the peers; default: $BENCHMARK_PEERS_PYTHON",
    )
    parser.add_argument("--kinds", nargs="+", choices=list(RECORDS), default=list(RECORDS), help="inputs to measure")
    parser.add_argument("--runs", type=int, default=5, help="runs of each job after its warm-up")
    parser.add_argument("--cores", type=int, default=2, help="cores that every job may use")
    parser.add_argument("--shrink", type=int, default=1, help="divide all record counts by this, for a quick look")
    given = parser.parse_args()
    unknown = set(given.parts) - set(PARTS)
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}: expected {', '.join(PARTS)}")
    return given


def main() -> None:
    given = _parse_arguments()
    parts = given.parts or ["speed", "windows"]
    pysam.set_verbosity(0)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: given.cores])
    print(_machine(), flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = (given.inputs or Path(scratch)).absolute()
        setting = Setting(folder, given.peers_python, given.runs, keep=given.inputs is not None)
        for part in parts:
            for line in _tables(part, given, setting):
                print(line, flush=True)


def _tables(part: str, given: argparse.Namespace, setting: Setting) -> Iterator[str]:
    shrink = given.shrink
    whole: dict[str, Callable[[], Iterator[str]]] = {
        "windows": lambda: window_table(given.runs),
        "memory": lambda: _memory_tables(setting, shrink=shrink),
        "spellings": lambda: spelling_table(setting, shrink=shrink),
        "store": lambda: store_tables(setting, shrink=shrink),
        "leakage": lambda: leakage_table(setting, shrink=shrink),
        "mito": lambda: mito_tables(given.runs, shrink=shrink),
        "forensic": lambda: forensic_tables(setting),
        "stream": lambda: stream_tables(setting, shrink=shrink),
        "size": lambda: size_tables(setting, shrink=shrink),
    }
    if part in whole:
        yield from whole[part]()
        return
    for kind in given.kinds:
        if part == "speed":
            yield from speed_table(make_input(setting.folder, kind, RECORDS[kind] // shrink), setting)
        else:
            yield from scaling_table(kind, setting, shrink=shrink)


def _memory_tables(setting: Setting, *, shrink: int) -> Iterator[str]:
    yield from memory_table(setting, shrink=shrink)
    yield from package_memory_table(setting, shrink=shrink)
    yield from window_memory_table(setting, shrink=shrink)
