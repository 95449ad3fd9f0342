"""Measurements of instrument files, profiles and items as Markdown tables."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.forensic.inputs import Runs, find_runs
from benchmarks.forensic.peers import PEERS
from benchmarks.vcf.tables import NO_PEERS, Setting
from benchmarks.workers import Job, measure

_FILES: Mapping[str, str] = {
    "parse": "a file parsed",
    "ladder": "a ladder: parsed, sized, all alleles assigned",
    "calls": "a sample: parsed, sized, alleles called",
    "profile_raw": "a profile: parsed, sized, on the grid",
    "profile_superior": "a profile without baseline (`superior`)",
}
_ITEMS: Mapping[str, str] = {
    "item": "an item, from the files of the cache",
    "item_memory": "an item, loaded in memory",
    "item_arrays": "an item as arrays (`to_arrays`)",
    "open": "the data set opened, cache current",
}


def forensic_tables(setting: Setting) -> Iterator[str]:
    """Measure all parts on one core and yield the lines of their tables."""
    runs = find_runs(setting.folder)
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[:1])
    try:
        yield f"\n**instrument files: {len(runs.paths)} {runs.kind} ones, one core**\n"
        yield from _file_table(setting, runs)
        yield from _item_table(setting)
    finally:
        os.sched_setaffinity(0, allowed)


def _file_table(setting: Setting, runs: Runs) -> Iterator[str]:
    jobs = [*_own_jobs(setting, _FILES), *_peer_jobs(setting, runs)]
    yield "| work | CPU ms each | lowest to highest | a second and core |"
    yield "|---|---:|---:|---:|"
    for row in measure(jobs, runs=setting.runs):
        if row.failure:
            yield f"| {row.name} | not measured: {row.failure.replace('|', '/')} | | |"
            continue
        each = 1e3 / (row.records or 1)
        low, high = min(row.cpu) * each, max(row.cpu) * each
        yield f"| {row.name} | {row.cpu_s * each:.2f} | {low:.2f} to {high:.2f} | {1e3 / (row.cpu_s * each):,.0f} |"


def _item_table(setting: Setting) -> Iterator[str]:
    yield "\n| item | CPU us | lowest to highest |"
    yield "|---|---:|---:|"
    for row in measure(_own_jobs(setting, _ITEMS), runs=setting.runs):
        if row.failure:
            yield f"| {row.name} | not measured: {row.failure.replace('|', '/')} | |"
            continue
        each = 1e6 / (1 if row.name == _ITEMS["open"] else row.records or 1)
        yield f"| {row.name} | {row.cpu_s * each:.1f} | {min(row.cpu) * each:.1f} to {max(row.cpu) * each:.1f} |"


def _own_jobs(setting: Setting, tasks: Mapping[str, str]) -> list[Job]:
    command = [sys.executable, "-m", "benchmarks.forensic.jobs", str(setting.folder)]
    return [Job(name, command, task=task) for task, name in tasks.items()]


def _peer_jobs(setting: Setting, runs: Runs) -> Iterator[Job]:
    """Biopython is installed with the project; DNANet needs an environment of its own."""
    for peer in PEERS:
        python = sys.executable if peer == "biopython" else setting.peers_python
        name = f"a file parsed by {peer}" + (", without its traces" if peer == "biopython" else "")
        if python is None:
            yield Job(name, [], unavailable=NO_PEERS)
        else:
            yield Job(name, [str(Path(python)), "-m", "benchmarks.forensic.peers", peer, str(runs.root)])
