"""Measured side of a measurement: a process that runs a task per line of input and answers with its cost.

This module uses the standard library only, because the peers' environment runs it too.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TextIO


def serve(work: Callable[[], int | None], *, version: str, out: Path) -> None:
    """Run ``work`` once for each line ``run`` of standard input; see :func:`serve_tasks`."""
    serve_tasks({"run": work}, version=version, out=out)


def serve_tasks(tasks: Mapping[str, Callable[[], int | None]], *, version: str, out: Path | None = None) -> None:
    """Run the task that each line of standard input names; remove the folder ``out`` before and after each run.

    Answers are JSON lines on standard output. The first is ``{"version": ..., "resident_bytes": ...}`` with the
    resident size before any run. Each run adds one with ``wall_s``, ``cpu_s`` (child processes included),
    ``peak_bytes`` (largest resident size so far) and ``records`` (the value that the task returned). Other output of a
    task goes to standard error.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _say(answers, {"version": version, "resident_bytes": status_bytes("VmRSS")})
    for line in sys.stdin:
        work = tasks[line.rstrip("\n")]
        _remove(out)
        started, used = time.perf_counter(), cpu_seconds()
        records = work()
        wall = time.perf_counter() - started
        cpu = cpu_seconds() - used
        _remove(out)
        _say(answers, {"wall_s": wall, "cpu_s": cpu, "peak_bytes": _peak_bytes(), "records": records})


def _remove(folder: Path | None) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def _say(answers: TextIO, message: dict[str, object]) -> None:
    print(json.dumps(message), file=answers, flush=True)


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and its ended children."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _peak_bytes() -> int:
    """Return the largest resident size, in bytes, of this process or of one of its children.

    ``VmHWM`` is preferred where it exists, because ``ru_maxrss`` starts at the size of the parent process.
    """
    own = status_bytes("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)


def status_bytes(name: str, process: int | str = "self") -> int:
    """Return the size ``name`` of proc(5) for a process, in bytes; 0 if it has ended or the system has no ``/proc``."""
    status = Path(f"/proc/{process}/status")
    lines = status.read_text().splitlines() if status.exists() else ()
    line = next((line for line in lines if line.startswith(name)), "none 0")
    return int(line.split()[1]) * 1024
