"""How runs are started on one machine, and how it is noticed that a run's process is gone.

Dagster's default launcher cannot tell. A run whose process was killed together with its code server, or that lost its
database, would stay "started" for ever: it would keep its place in the queue and its slot in a pool, and its backfill
would never end. With this launcher run monitoring fails such a run, and ``run_retries`` launches it again.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

import dagster as dg

# Not among Dagster's top-level names; launchers of other packages import them from here too.
from dagster._core.launcher import CheckRunHealthResult, WorkerStatus

#: What Dagster logs when a run's process begins to work.
_STARTED = re.compile(r"Started process for run \(pid: (\d+)\)")

#: Seconds by which two clocks of one machine may differ: that of the log and that of the process table.
_CLOCKS_DIFFER_S = 2.0


class MachineRunLauncher(dg.DefaultRunLauncher):
    """Dagster's own launcher, for a daemon that sees the processes of the code server: not for containers."""

    @property
    def supports_check_run_worker_health(self) -> bool:
        """Yes: run monitoring asks :meth:`check_run_worker_health`."""
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Tell whether the process that works on a started run is there; one that cannot be known counts as there."""
        worker = self._worker_of(run)
        if worker is None or is_running(*worker):
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        return CheckRunHealthResult(WorkerStatus.NOT_FOUND, f"process {worker[0]} is gone")

    def _worker_of(self, run: dg.DagsterRun) -> tuple[int, float] | None:
        """Return the process id of a run's worker and when it said so; None for runs started otherwise (the demo)."""
        entries = self._instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ENGINE_EVENT)
        for entry in reversed(entries):
            if found := _STARTED.search(entry.message):
                return int(found[1]), entry.timestamp
        return None


def is_running(pid: int, began_before: float) -> bool:
    """Tell whether a process runs that began before a time; a later one got the number of one that has ended."""
    if not _process_exists(pid):
        return False
    with suppress(OSError):  # where there is no /proc, or it hides other people's processes
        # Behind the command's name in parentheses: state, ..., and as 20th the start in ticks since boot (proc(5)).
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        began = _boot_time() + int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return fields[0] not in "ZX" and began <= began_before + _CLOCKS_DIFFER_S
    return True


def _process_exists(pid: int) -> bool:
    """Tell whether a process of this machine has a number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _boot_time() -> float:
    """Return when the machine was started, in seconds since the epoch."""
    (line,) = (line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
    return float(line.split()[1])
