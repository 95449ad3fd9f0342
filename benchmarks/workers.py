"""Measuring side of a measurement: starts a process for each job, runs the jobs in turns, and keeps the figures."""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

_ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Job:
    """One job to measure; jobs with equal commands share one process.

    Attributes
    ----------
    name
        Name of the job in the tables.
    command
        Command of the process that runs the job; empty if the job is not available.
    unavailable
        Reason why the job is not available.
    task
        Task of the process that the job runs.
    """

    name: str
    command: Sequence[str]
    unavailable: str = ""
    task: str = "run"


@dataclass(slots=True)
class Figures:
    """Measurements of a job.

    Attributes
    ----------
    version
        Version of the measured package.
    wall, cpu
        Wall-clock and CPU seconds of each run, without the warm-up.
    loaded_bytes
        Resident size of the process before its first run.
    peak_bytes
        Largest resident size up to the end of the warm-up, the first run of the process.
    records
        Number of records, or of other items, that the job reports; None if it reports none.
    failure
        Reason why there are no figures; empty if there are.
    """

    name: str
    version: str = ""
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    loaded_bytes: int = 0
    peak_bytes: int = 0
    records: int | None = None
    failure: str = ""

    @property
    def wall_s(self) -> float:
        """Return the median of the wall-clock seconds."""
        return statistics.median(self.wall)

    @property
    def cpu_s(self) -> float:
        """Return the median of the CPU seconds, child processes included."""
        return statistics.median(self.cpu)


class WorkerError(RuntimeError):
    """The process of a job ended or did not start; the message is the last line of its standard error."""


class Worker:
    """The process of one job; see :func:`open_worker`."""

    def __init__(self, process: subprocess.Popen[bytes], errors: BinaryIO) -> None:
        self._process, self._errors = process, errors
        self._version, self._loaded_bytes = "", 0

    def begin(self) -> None:
        """Wait until the job is loaded."""
        answer = self._answer()
        self._version, self._loaded_bytes = str(answer["version"]), answer["resident_bytes"]

    def run(self, figures: Figures, *, task: str = "run", warm_up: bool = False) -> None:
        """Run a task and store its cost in ``figures`` unless it is a warm-up; the first sets version and memory."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # The process has ended; the missing answer raises the error below.
            self._process.stdin.write(f"{task}\n".encode())
        answer = self._answer()
        if not figures.version:
            figures.version, figures.loaded_bytes = self._version, self._loaded_bytes
            figures.peak_bytes, figures.records = answer["peak_bytes"], answer["records"]
        if not warm_up:
            figures.wall.append(answer["wall_s"])
            figures.cpu.append(answer["cpu_s"])

    def _answer(self) -> dict:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            said = self._errors.read().decode(errors="replace").strip().splitlines()
            raise WorkerError(said[-1] if said else f"the process ended with status {self._process.returncode}")
        return json.loads(line)


@contextmanager
def open_worker(job: Job) -> Iterator[Worker]:
    """Start the process of a job, and end the process when the block is left.

    Raises
    ------
    WorkerError
        If the job is not available.
    """
    if not job.command:
        raise WorkerError(job.unavailable)
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            job.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, bufsize=0, cwd=_ROOT
        ) as process,
    ):
        try:
            yield Worker(process, errors)
        except BaseException:
            process.kill()
            raise


def measure(jobs: Sequence[Job], *, runs: int) -> list[Figures]:
    """Run every job once as a warm-up, then all jobs in turns, ``runs`` times, so that other load affects all alike.

    The order is shuffled in every turn, because the previously running process influences a job. A job that fails gets
    a ``failure`` and is left out of further turns.
    """
    found = [Figures(job.name) for job in jobs]
    with ExitStack() as stack:
        processes: dict[tuple[str, ...], Worker] = {}
        for job, figures in zip(jobs, found, strict=True):
            with _noted(figures):
                command = tuple(job.command)
                if command not in processes:
                    processes[command] = stack.enter_context(open_worker(job))
                    processes[command].begin()
                processes[command].run(figures, task=job.task, warm_up=True)
        turn, order = list(zip(jobs, found, strict=True)), random.Random(6)
        for _ in range(runs):
            order.shuffle(turn)
            for job, figures in turn:
                if not figures.failure:
                    with _noted(figures):
                        processes[tuple(job.command)].run(figures, task=job.task)
    return found


def measure_once(job: Job) -> Figures:
    """Run a job of minutes once, in a new process, without a warm-up."""
    found = Figures(job.name)
    with _noted(found), open_worker(job) as worker:
        worker.begin()
        worker.run(found, task=job.task)
    return found


def measure_fresh(jobs: Sequence[Job], *, runs: int) -> list[Figures]:
    """Measure like :func:`measure`, but start a new process for each run, so that each is a process's first run."""
    found = [Figures(job.name) for job in jobs]
    for number in range(runs + 1):
        for job, figures in zip(jobs, found, strict=True):
            if not figures.failure:
                with _noted(figures), open_worker(job) as worker:
                    worker.begin()
                    worker.run(figures, task=job.task, warm_up=number == 0)
    return found


@contextmanager
def _noted(figures: Figures) -> Iterator[None]:
    try:
        yield
    except (WorkerError, OSError) as err:
        figures.failure = str(err)


def prime(job: Job) -> None:
    """Run a job once in a process that is not measured, so that the cache of compiled code is filled.

    Raises
    ------
    WorkerError
        If the job fails.
    """
    with open_worker(job) as worker:
        worker.begin()
        worker.run(Figures(job.name), task=job.task)
