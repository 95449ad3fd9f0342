"""The side of a measurement that runs in a process of its own: do one job whenever asked, answer with its cost.

Standard library only, because the peers' environment runs it too.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO


def serve(work: Callable[[], int | None], *, version: str, out: Path) -> None:
    """Run ``work`` once for each line of standard input, and remove the folder ``out`` before and after each time.

    The first line answered is ``{"version": ...}``, then for each run one with ``wall_s`` and ``cpu_s`` (those of child
    processes included), ``peak_bytes`` so far, and ``records``: what ``work`` returned. Whatever else the job prints
    goes to standard error.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _say(answers, {"version": version})
    for _ in sys.stdin:
        shutil.rmtree(out, ignore_errors=True)
        started, used = time.perf_counter(), _cpu_seconds()
        records = work()
        wall = time.perf_counter() - started
        cpu = _cpu_seconds() - used
        shutil.rmtree(out, ignore_errors=True)
        _say(answers, {"wall_s": wall, "cpu_s": cpu, "peak_bytes": _peak_bytes(), "records": records})


def _say(answers: TextIO, message: dict[str, object]) -> None:
    print(json.dumps(message), file=answers, flush=True)


def _cpu_seconds() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _peak_bytes() -> int:
    """Return the largest resident size of this process or of one of its children.

    ``VmHWM`` where there is one: ``ru_maxrss`` of a process starts at the size of the one that started it.
    """
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        own = int(line.split()[1])
    return max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) * 1024
