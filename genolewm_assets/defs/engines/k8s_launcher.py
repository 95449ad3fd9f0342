"""Run launcher of ``dagster-k8s`` that does not take a run for lost because Kubernetes does not answer."""

from __future__ import annotations

import logging

import dagster as dg

# Not among Dagster's top-level names; launchers of other packages import these two names from the same module.
from dagster._core.launcher import CheckRunHealthResult, WorkerStatus
from dagster_k8s import K8sRunLauncher
from dagster_k8s.job import get_job_name_from_run_id

#: The daemon prints what its loggers say.
_LOGGER = logging.getLogger("dagster.daemon.MonitoringDaemon")


class KubernetesRunLauncher(K8sRunLauncher):  # type: ignore[misc]  # the package is untyped
    """Dagster's launcher, which takes a run for running while the API server cannot be asked.

    Run monitoring fails a run of which nothing is known and launches it again, so it would run twice.
    """

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Return the verdict of Dagster's launcher; RUNNING, and a warning, if the API server cannot be asked."""
        found: CheckRunHealthResult = super().check_run_worker_health(run)
        missing = f"Job {get_job_name_from_run_id(run.run_id)} could not be found"
        if found.status is WorkerStatus.UNKNOWN and found.msg != missing:
            _LOGGER.warning("Run %s is taken for running. Kubernetes does not answer: %s", run.run_id, found.msg)
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        return found
