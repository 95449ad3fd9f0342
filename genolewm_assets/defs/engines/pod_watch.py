"""Step handler of ``dagster-k8s`` that also reports why the pod of a step waits, and why one failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg
from dagster._core.executor.step_delegating import CheckStepHealthResult, StepHandler, StepHandlerContext
from dagster_k8s.executor import K8sStepHandler

#: A container in one of these is about to start.
_STARTING = {"ContainerCreating", "PodInitializing", None}


class PodWatch(StepHandler):
    """The given handler, with reasons in the log of the run."""

    def __init__(self, handler: K8sStepHandler) -> None:
        self._handler = handler
        self._client = handler._api_client
        self._waited: dict[str, str] = {}
        self._said: set[tuple[str, str]] = set()
        self._complete: set[str] = set()

    @property
    def name(self) -> str:
        """Name in the log of the run."""
        return str(self._handler.name)

    def launch_step(self, step_handler_context: StepHandlerContext) -> Iterator[dg.DagsterEvent]:
        """Create the Job of a step."""
        yield from self._handler.launch_step(step_handler_context)

    def terminate_step(self, step_handler_context: StepHandlerContext) -> Iterator[dg.DagsterEvent]:
        """Delete the Job of a step and its pods."""
        yield from self._handler.terminate_step(step_handler_context)

    def check_step_health(self, step_handler_context: StepHandlerContext) -> CheckStepHealthResult:
        """Look at the Job of a step: report each reason to wait once, and add the reason to a failure."""
        found: CheckStepHealthResult = self._handler.check_step_health(step_handler_context)
        job = self._handler._get_k8s_step_job_name(step_handler_context)
        launcher: Any = step_handler_context.instance.run_launcher
        try:
            pods = self._client.get_pods_in_job(job, launcher.job_namespace)
            if found.is_healthy and (ended := self._has_ended(job, launcher.job_namespace, pods)):
                found = CheckStepHealthResult.unhealthy(ended)
            if found.is_healthy:
                self._report_waiting(step_handler_context, job, pods)
                return found
            why = self._why_failed(job, launcher.job_namespace, pods)
        except Exception as err:  # noqa: BLE001
            # Whatever keeps the reason from us (no answer, a log that is not text): the verdict stands.
            why = f"Kubernetes did not say why: {err}"
        if found.is_healthy:
            return found
        return CheckStepHealthResult.unhealthy(f"{found.unhealthy_reason}\n{why}".rstrip())

    def _has_ended(self, job: str, namespace: str, pods: Sequence[Any]) -> str:
        """Return how a Job without a failed pod ended; empty if it goes on, or its step may just have told its end."""
        if any(pod.status is None or pod.status.phase in {"Pending", "Running"} for pod in pods):
            return ""
        status = self._client.get_job_status(job, namespace)
        ends = {each.type for each in (status and status.conditions) or () if each.status == "True"}
        if "Failed" in ends:
            return f"Kubernetes job {job} failed."
        if "Complete" in ends and job in self._complete:
            return f"Kubernetes job {job} is complete, and its step did not tell that it ended."
        if "Complete" in ends:
            # The executor reads the events of steps between two looks.
            self._complete.add(job)
        return ""

    def _report_waiting(self, context: StepHandlerContext, job: str, pods: Sequence[Any]) -> None:
        launcher: Any = context.instance.run_launcher
        reasons = [_waiting(pod) for pod in pods] or self._refusals(job, launcher.job_namespace)
        reason = "; ".join(filter(None, reasons))
        if reason:
            self._waited[job] = reason
        elif pods:
            self._waited.pop(job, None)
        # Of an image that cannot be pulled, two reasons take turns.
        if reason and (job, reason) not in self._said:
            self._said.add((job, reason))
            (step,) = context.execute_step_args.step_keys_to_execute or ()
            context.instance.report_engine_event(
                f"The pod of step {step} waits. {reason}", context.dagster_run, step_key=step
            )

    def _refusals(self, job: str, namespace: str) -> list[str]:
        """Return why a Job has no pod, such as an exceeded quota."""
        events = self._client.retrieve_pod_events(job, namespace)
        return [f"{event.reason}: {event.message}" for event in events[-1:] if event.type == "Warning"]

    def _why_failed(self, job: str, namespace: str, pods: Sequence[Any]) -> str:
        status = self._client.get_job_status(job, namespace)
        conditions = (status and status.conditions) or ()
        said = [f"{each.reason}: {each.message}" for each in conditions if each.type == "Failed"]
        if not pods and job in self._waited:
            said.append(f"It had not started. {self._waited[job]}")
        said += [self._client.get_pod_debug_info(pod.metadata.name, namespace, pod=pod) for pod in pods]
        return "\n".join(said)


def _waiting(pod: Any) -> str:
    """Return why a pod waits, in the words of the scheduler or of the node; empty if it does not."""
    if pod.status is None or pod.status.phase != "Pending":
        return ""
    states = [status.state.waiting for status in pod.status.container_statuses or () if status.state]
    waiting = [state for state in states if state is not None and state.reason not in _STARTING]
    unscheduled = [
        each for each in pod.status.conditions or () if each.type == "PodScheduled" and each.status == "False"
    ]
    return "; ".join(f"{each.reason}: {each.message}" for each in (*unscheduled, *waiting))
