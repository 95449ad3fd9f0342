"""Run launcher for one machine that reports whether the process of a started run still exists.

Dagster's default launcher does not: a run whose process was killed with its code server would stay "started" for ever.
With this one, run monitoring fails such a run and ``run_retries`` launches it again.
"""

from __future__ import annotations

import re

import dagster as dg

# Not among Dagster's top-level names; launchers of other packages import these two names from the same module.
from dagster._core.launcher import CheckRunHealthResult, WorkerStatus

from genolewm_assets.store.locks import is_running

#: Message that Dagster logs when the process of a run starts; group 1 is the process id.
_STARTED = re.compile(r"Started process for run \(pid: (\d+)\)")


class MachineRunLauncher(dg.DefaultRunLauncher):
    """Default launcher with a worker health check; the daemon must see the processes of the code server."""

    @property
    def supports_check_run_worker_health(self) -> bool:
        """True: run monitoring calls :meth:`check_run_worker_health`."""
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Return RUNNING while the process of a started run exists or its process id is unknown, else NOT_FOUND."""
        worker = self._worker_of(run)
        if worker is None or is_running(*worker):
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        return CheckRunHealthResult(WorkerStatus.NOT_FOUND, f"process {worker[0]} no longer exists")

    def _worker_of(self, run: dg.DagsterRun) -> tuple[int, float] | None:
        """Return the process id of a run and the time it was logged, in seconds since 1970; None if none was logged."""
        entries = self._instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ENGINE_EVENT)
        for entry in reversed(entries):
            if found := _STARTED.search(entry.message):
                return int(found[1]), entry.timestamp
        return None
