"""How runs are started on one machine, and how it is noticed that a run's process is gone.

Dagster's default launcher cannot tell. A run whose process was killed together with its code server, or that lost its
database, would stay "started" for ever: it would keep its place in the queue and its slot in a pool, and its backfill
would never end. With this launcher run monitoring fails such a run, and ``run_retries`` launches it again.
"""

from __future__ import annotations

import re

import dagster as dg

# Not among Dagster's top-level names; launchers of other packages import them from here too.
from dagster._core.launcher import CheckRunHealthResult, WorkerStatus

from genolewm_assets.store.locks import is_running

#: What Dagster logs when a run's process begins to work.
_STARTED = re.compile(r"Started process for run \(pid: (\d+)\)")


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
