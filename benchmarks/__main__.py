"""Run every measurement and print a Markdown table: ``python -m benchmarks [--records N]``."""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pysam
from isal import igzip

from benchmarks.gnomad_vcf import CONTIG, simulate_contig, write_vcf
from genolewm_assets.genome import PROFILES, ContigSet
from genolewm_assets.lewm.window_index import build_window_table
from genolewm_assets.sources.gnomad import GnomadParams, build_gnomad_shard

RUNS = 5


def measure(work: Callable[[], object]) -> tuple[float, float]:
    """Return the medians of wall and CPU seconds over :data:`RUNS` runs after one warm-up."""
    work()
    wall, cpu = [], []
    for _ in range(RUNS):
        started, used = time.perf_counter(), os.times()
        work()
        wall.append(time.perf_counter() - started)
        cpu.append(sum(os.times()[:4]) - sum(used[:4]))
    return statistics.median(wall), statistics.median(cpu)


def inflate(vcf: Path) -> None:
    with igzip.open(vcf, "rb") as handle:
        while handle.read(1 << 20):
            continue


def read_with_pysam(vcf: Path) -> None:
    with pysam.VariantFile(str(vcf)) as reader:
        for record in reader:
            _ = (record.pos, record.alts, record.info["AC"], record.info["AN"], record.info["AF"])


def query_with_bcftools(vcf: Path) -> None:
    query = r"%POS\t%REF\t%ALT\t%INFO/AC\t%INFO/AN\t%INFO/AF\n"
    subprocess.run(["bcftools", "query", "-f", query, str(vcf)], stdout=subprocess.DEVNULL, check=True)


def shard_rows(folder: Path, bases: bytes, *, records: int, record_bytes: int) -> Iterator[str]:
    """Measure VCF to finished shard beside readers that only read the three fields."""
    vcf, out, contigs = folder / f"{record_bytes}.vcf.bgz", folder / "out", ContigSet([CONTIG])
    write_vcf(vcf, bases, records=records, record_bytes=record_bytes)
    jobs: dict[str, Callable[[], object]] = {
        "isal, inflate only": lambda: inflate(vcf),
        "genolewm_assets, finished shard": lambda: build_gnomad_shard(
            vcf, contig=CONTIG, contigs=contigs, reference=lambda _: bases, params=GnomadParams(), out_dir=out
        ),
        "pysam VariantFile, reading only": lambda: read_with_pysam(vcf),
    }
    if shutil.which("bcftools"):
        jobs["bcftools query, reading only"] = lambda: query_with_bcftools(vcf)
    times = {name: measure(job) for name, job in jobs.items()}
    base = times["genolewm_assets, finished shard"][0]
    for name, (wall, cpu) in times.items():
        yield f"| {records:,} records of {record_bytes:,} B | {name} | {wall:.2f} | {cpu:.2f} | {wall / base:.2f} |"


def window_row(bases: bytes) -> str:
    """Measure tiling, hashing and describing the windows of the contig."""
    wall, cpu = measure(lambda: build_window_table(CONTIG, bases, PROFILES["default"], {}))
    rate = len(bases) / wall / 1e6
    return (
        f"| {len(bases) / 1e6:.0f} Mbp of windows | genolewm_assets, {rate:.0f} Mbp/s | {wall:.3f} | {cpu:.3f} | 1.00 |"
    )


def main() -> None:
    pysam.set_verbosity(0)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=40_000, help="records of each generated VCF")
    records = parser.parse_args().records
    bases = simulate_contig()
    print("| input | job | wall s | CPU s | wall, ours = 1 |\n|---|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for record_bytes in (4_000, 500):
            for row in shard_rows(Path(folder), bases, records=records, record_bytes=record_bytes):
                print(row, flush=True)
    print(window_row(bases))


if __name__ == "__main__":
    main()
