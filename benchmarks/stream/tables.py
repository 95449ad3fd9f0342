"""Measurements of the stream of training tuples as Markdown tables."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.stream.jobs import FROZEN, HELD, PLAIN
from benchmarks.stream.phased_vcf import PhasedShape, write_phased
from benchmarks.stream.simulated_encoder import SimulatedEncoder
from benchmarks.stream.simulated_package import HeldOut, PackageShape, publish_package, write_inputs
from benchmarks.vcf.tables import NO_PEERS, Setting
from benchmarks.workers import Figures, Job, WorkerError, measure, measure_fresh, open_worker, prime
from genolewm_assets.genome import Contig
from genolewm_assets.training import write_frozen

#: Contigs of the package, common alleles per million bases (one in 120), held-out alleles and intervals of the second.
_CONTIGS, _PER_MBP, _HELD = (Contig("chr2", 10_000_000), Contig("chr17", 5_100_000)), 8_333, 100_000
_CORPUS_WINDOWS, _HIDDEN = 2_253, 1_024
_PHASED, _SAMPLES = Contig("chr1", 4_000_000), 300
#: Least size of a contig, for which the simulated alleles have room.
_LEAST_BP, _LEAST_SAMPLES = 100_000, 4

_GVL, _LEWM = "GenVarLoader, haplotypes of 12,288 bp", "geno-lewm, its own tuples, no states"
#: Job by task of ``one_process``, and the copy that bounds it.
_JOBS: Mapping[str, tuple[str, str]] = {
    "states": ("tuples with states and tokens, as tensors", "copy_states"),
    "tables": ("tuples with tokens, as tensors", "copy_tables"),
    "text": ("edited windows as bytes, and all of the tuples but states", "copy_text"),
    "frozen": ("frozen tuples: both states and tokens, as tensors", "copy_states"),
    "held": ("tuples with tokens; 100,000 alleles and 100,000 intervals held out", "copy_tables"),
}
_COPIES: Mapping[str, str] = {
    "copy_states": "copy of the bytes of a batch with states",
    "copy_tables": "copy of the bytes of a batch without",
    "copy_text": "copy of the bytes of a batch with edited windows",
}


def stream_tables(setting: Setting, *, shrink: int) -> Iterator[str]:
    """Make packages and a phased VCF, and yield the lines of all tables; one core, but for the loaders."""
    folder = inputs_of(setting, shrink=shrink)
    prime(_own_job(folder, "first_batch", "first_batch", ""))
    with _one_core():
        yield from rate_table(folder, setting)
    yield from loader_table(folder, setting)
    with _one_core():
        yield from first_batch_table(folder, setting)


def inputs_of(setting: Setting, *, shrink: int) -> Path:
    """Return the folder of the inputs, which is made if it is not there."""
    folder = setting.folder / f"stream_{shrink}"
    if not folder.exists():
        setting.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=setting.folder) as scratch:
            unfinished = Path(scratch) / folder.name
            make_folder(unfinished, shrink=shrink)
            unfinished.rename(folder)
    return folder


def make_folder(folder: Path, *, shrink: int) -> None:
    """Write the inputs of all jobs into a new folder: a package, one with held-out alleles, and a phased VCF."""
    contigs = tuple(Contig(each.name, max(_LEAST_BP, each.length // shrink)) for each in _CONTIGS)
    held = _HELD // shrink
    write_inputs(folder, PackageShape(contigs, _CORPUS_WINDOWS // shrink, _PER_MBP, _HIDDEN, held))
    package, encoder = publish_package(folder, PLAIN, HeldOut()), SimulatedEncoder(_HIDDEN)
    write_frozen(folder / FROZEN, package, encoder, epochs=1, allow_unaudited=True)
    publish_package(folder, HELD, HeldOut(alleles=True, intervals=held))
    phased = Contig(_PHASED.name, max(_LEAST_BP, _PHASED.length // shrink))
    write_phased(folder, PhasedShape(phased, _PER_MBP, max(_LEAST_SAMPLES, _SAMPLES // shrink)))


def rate_table(folder: Path, setting: Setting) -> Iterator[str]:
    """Measure everything that runs in one process, in turns; yield the lines of the table and what was aimed at."""
    jobs = {task: _own_job(folder, "one_process", task, name) for task, (name, _) in _JOBS.items()}
    jobs |= {task: _own_job(folder, "one_process", task, name) for task, name in _COPIES.items()}
    jobs |= {"genvarloader": _peer_job(_GVL, folder, setting), "geno-lewm": _peer_job(_LEWM, folder, setting)}
    found = dict(zip(jobs, measure(list(jobs.values()), runs=setting.runs), strict=True))
    yield "\n**training tuples: windows of 12,288 bp, 8 edits each, 32 windows a batch, one process on one core**\n"
    yield "| job | tuples/s | lowest to highest | per CPU s | of GenVarLoader | of geno-lewm | of the copy |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for task, figures in found.items():
        bounds = ("genvarloader", "geno-lewm", _JOBS[task][1] if task in _JOBS else "")
        yield _rate_row(figures, [found.get(bound) for bound in bounds])
    yield ""
    held, text = _ratio(found["held"], found["tables"]), _ratio(found["text"], found["genvarloader"])
    yield f"Rate with held-out alleles and intervals beside none: {held or 'not measured'} (aim: at least 0.90)."
    yield f"Rate of edited windows beside GenVarLoader: {text or 'not measured'} (aim: at least 0.50)."


def loader_table(folder: Path, setting: Setting) -> Iterator[str]:
    """Measure ``DataLoader`` with one and two workers on all cores; yield the lines of the table."""
    forms = {"batches": "batches", "tensors": "collate_fn=as_tensors"}
    jobs = {
        (form, n): _own_job(folder, "loaders", f"{form}/{n}", f"{title}; {n} worker{'s' * (n > 1)}")
        for form, title in forms.items()
        for n in (1, 2)
    }
    found = dict(zip(jobs, measure(list(jobs.values()), runs=setting.runs), strict=True))
    cores = len(os.sched_getaffinity(0))
    yield f"\n**training tuples through torch.utils.data.DataLoader, with states; {cores} cores for all processes**\n"
    yield "| job | tuples/s | lowest to highest | one worker = 1 |"
    yield "|---|---:|---:|---:|"
    for (form, _), figures in found.items():
        if figures.failure:
            yield _failed(figures, columns=4)
            continue
        yield f"| {figures.name} | {_rates(figures)} | {_ratio(figures, found[form, 1])} |"


def first_batch_table(folder: Path, setting: Setting) -> Iterator[str]:
    """Measure opening and the first batch of a process, with compiled code on disk and without."""
    opening = _own_job(folder, "first_batch", "open", "opening alone")
    warm = _own_job(folder, "first_batch", "first_batch", "opening and first batch")
    cold = _own_job(folder, "cold", "first_batch", "opening and first batch, nothing compiled on disk")
    found = [*measure_fresh([opening, warm], runs=setting.runs), _measure_once(cold)]
    yield "\n**the first batch of a process, with states, after the imports; one core**\n"
    yield "| job | wall s | lowest to highest | CPU s | peak MiB |"
    yield "|---|---:|---:|---:|---:|"
    for figures in found:
        if figures.failure:
            yield _failed(figures, columns=5)
            continue
        spread = f"{figures.wall_s:.2f} | {min(figures.wall):.2f} to {max(figures.wall):.2f}"
        peak = f"{figures.peak_bytes / (1 << 20):,.0f}" if figures.peak_bytes else ""
        yield f"| {figures.name} | {spread} | {figures.cpu_s:.2f} | {peak} |"


def _measure_once(job: Job) -> Figures:
    """Run a job once in a new process; compiling everything takes about half a minute."""
    figures = Figures(job.name)
    try:
        with open_worker(job) as worker:
            worker.begin()
            worker.run(figures, task=job.task)
    except (WorkerError, OSError) as err:
        figures.failure = str(err)
    return figures


@contextmanager
def _one_core() -> Iterator[None]:
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[:1])
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def _own_job(folder: Path, part: str, task: str, name: str) -> Job:
    return Job(name, [sys.executable, "-m", "benchmarks.stream.jobs", part, str(folder)], task=task)


def _peer_job(name: str, folder: Path, setting: Setting) -> Job:
    if setting.peers_python is None:
        return Job(name, (), NO_PEERS)
    peer = {_GVL: "genvarloader", _LEWM: "geno-lewm"}[name]
    return Job(name, [str(setting.peers_python), "-m", "benchmarks.stream.peer_jobs", peer, str(folder)])


def _rate_row(figures: Figures, bounds: Sequence[Figures | None]) -> str:
    if figures.failure:
        return _failed(figures, columns=7)
    name = f"{figures.name} ({figures.version})" if figures.version else figures.name
    per_cpu = (figures.records or 0) / figures.cpu_s
    ratios = " | ".join("" if bound is None else _ratio(figures, bound) for bound in bounds)
    return f"| {name} | {_rates(figures)} | {per_cpu:,.0f} | {ratios} |"


def _rates(figures: Figures) -> str:
    n = figures.records or 0
    return f"{n / figures.wall_s:,.0f} | {n / max(figures.wall):,.0f} to {n / min(figures.wall):,.0f}"


def _ratio(figures: Figures, bound: Figures) -> str:
    """Return the ratio of two rates, the median over the turns; empty if one was not measured."""
    if figures.failure or bound.failure:
        return ""
    turns = [theirs / ours for ours, theirs in zip(figures.wall, bound.wall, strict=True)]
    return f"{(figures.records or 0) / (bound.records or 1) * statistics.median(turns):.2f}"


def _failed(figures: Figures, *, columns: int) -> str:
    return f"| {figures.name} | not measured: {figures.failure.replace('|', '/')} |" + " |" * (columns - 2)
