"""The cluster behind the API server: Jobs, their pods, and the loop that brings them where they should be."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from genolewm_assets_tests.servers.kubernetes.access import Access
from genolewm_assets_tests.servers.kubernetes.admission import security_faults
from genolewm_assets_tests.servers.kubernetes.nodes import Node, end_process
from genolewm_assets_tests.servers.kubernetes.quantities import Amounts, requested
from genolewm_assets_tests.servers.kubernetes.scheduler import place
from genolewm_assets_tests.servers.kubernetes.surroundings import Surroundings, UnresolvedError
from genolewm_assets_tests.servers.kubernetes.workloads import Job, Pod, timestamp

_LOOP_S = 0.05
_GRACE_S = 30


@dataclass
class Cluster:
    """Nodes, Jobs, pods and events of one namespace."""

    nodes: Sequence[Node]
    access: Access
    surroundings: Surroundings
    folder: Path
    jobs: dict[str, Job] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    #: All pods that there ever were.
    past: list[Pod] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False)
    _ended: threading.Event = field(default_factory=threading.Event, repr=False)
    _thread: threading.Thread | None = field(default=None, repr=False)

    # Nodes

    def start(self) -> None:
        """Start the nodes and the loop."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for node in self.nodes:
            node.start()
        self._thread = threading.Thread(target=self._loop, name="kubernetes", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the loop, the nodes and every process of a pod."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        for node in self.nodes:
            self.kill_node(node.name)

    def node(self, name: str) -> Node:
        return next(node for node in self.nodes if node.name == name)

    def kill_node(self, name: str) -> None:
        """End a node and all that runs on it at once; its pods are lost."""
        with self.lock:
            self.node(name).kill()
            for pod in self._running_on(name):
                if pod.pid is not None:
                    end_process(pod.pid, signal.SIGKILL)
                message = f"Node {name} which was running pod {pod.name} is unresponsive"
                pod.phase, pod.reason, pod.message = "Failed", "NodeLost", message

    def start_node(self, name: str) -> None:
        with self.lock:
            self.node(name).start()

    # What the API server asks for

    def create_job(self, body: Mapping[str, Any]) -> Job:
        """Add a Job; its pod follows."""
        job = Job(body)
        self.jobs[job.name] = job
        return job

    def delete_job(self, job: Job, *, orphan: bool) -> None:
        """Delete a Job, and its pods unless they are to be left over."""
        del self.jobs[job.name]
        for pod in self._pods_of(job):
            if orphan:
                pod.owner = None
            else:
                self.delete_pod(pod)

    def delete_pod(self, pod: Pod) -> None:
        """Ask a pod to end; it is gone as soon as it has. What it owns goes too."""
        if pod.kill_at is not None:
            return
        pod.kill_at = time.monotonic() + pod.spec.get("terminationGracePeriodSeconds", _GRACE_S)
        if pod.pid is not None and not pod.has_ended:
            end_process(pod.pid, signal.SIGTERM)

    def report(self, kind: str, name: str, reason: str, message: str) -> None:
        """Add a warning to the events, or count it once more."""
        about = {"kind": kind, "name": name, "namespace": self.access.namespace}
        for event in self.events:
            if (event["involvedObject"], event["reason"], event["message"]) == (about, reason, message):
                event["count"] += 1
                return
        event = {"involvedObject": about, "reason": reason, "message": message, "count": 1}
        event |= {"type": "Warning", "lastTimestamp": timestamp(time.time())}
        metadata = {"name": f"{name}.{len(self.events)}", "namespace": self.access.namespace}
        self.events.append({"apiVersion": "v1", "kind": "Event", "metadata": metadata, **event})

    # The loop

    def _loop(self) -> None:
        while not self._ended.wait(_LOOP_S):
            with self.lock:
                for node in self.nodes:
                    for news in node.news():
                        self._note(news)
                for job in list(self.jobs.values()):
                    self._control(job)
                for pod in list(self.pods.values()):
                    self._advance(pod)
                self._collect_garbage()

    def _note(self, news: Mapping[str, str | int]) -> None:
        pod = next((pod for pod in self.pods.values() if pod.uid == news["pod"]), None)
        if pod is None or pod.has_ended:
            return
        if "pid" in news:
            pod.pid, pod.phase = int(news["pid"]), "Running"
            if pod.kill_at is not None:
                end_process(pod.pid, signal.SIGTERM)
        else:
            pod.exit_code = int(news.get("exit", 127))
            pod.message = str(news.get("error", ""))
            pod.phase = "Failed" if pod.exit_code else "Succeeded"

    def _control(self, job: Job) -> None:
        """Do what the Job controller does: make the pod, count, end at the deadline or with the pod."""
        mine = self._pods_of(job)
        job.active = sum(not pod.has_ended and pod.kill_at is None for pod in mine)
        if job.is_over:
            return
        if job.is_late:
            job.failed += job.active
            job.active = 0
            for pod in mine:
                self.delete_pod(pod)
            self._end_job(job, "DeadlineExceeded", "Job was active longer than specified deadline")
        elif any(pod.phase == "Succeeded" for pod in mine):
            job.succeeded = 1
            job.end("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
        elif job.pods and not job.active:
            job.failed += 1
            if job.failed > job.body["spec"].get("backoffLimit", 6):
                self._end_job(job, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
            else:
                self._make_pod(job)
        elif not job.pods:
            self._make_pod(job)

    def _end_job(self, job: Job, reason: str, message: str) -> None:
        job.end("Failed", reason, message)
        self.report("Job", job.name, reason, message)

    def _make_pod(self, job: Job) -> None:
        spec = job.body["spec"]["template"]["spec"]
        account, faults = spec.get("serviceAccountName", "default"), security_faults(spec)
        if account not in self.access.tokens:
            message = f'Error creating: pods "{job.name}-" is forbidden: serviceaccount "{account}" not found'
        elif faults:
            broken = ", ".join(faults)
            message = f'Error creating: pods "{job.name}-" is forbidden: violates PodSecurity "restricted": {broken}'
        else:
            pod = job.new_pod(self.folder)
            self.pods[pod.name] = pod
            self.past.append(pod)
            job.pods += 1
            return
        self.report("Job", job.name, "FailedCreate", message)

    def _advance(self, pod: Pod) -> None:
        """Place a pod that waits, start one that is placed, and end one that is to go."""
        if pod.kill_at is not None:
            if pod.pid is not None and not pod.has_ended and time.monotonic() >= pod.kill_at:
                end_process(pod.pid, signal.SIGKILL)
            elif pod.has_ended or (pod.phase == "Pending" and (pod.node is None or pod.waiting)):
                del self.pods[pod.name]
        elif pod.phase == "Pending" and pod.node is None:
            self._schedule(pod)
        elif pod.phase == "Pending" and pod.waiting:
            self._start(pod)

    def _schedule(self, pod: Pod) -> None:
        found = place(pod.spec, self.nodes, self._used)
        if isinstance(found, Node):
            pod.node, pod.reason, pod.message = found.name, "", ""
            self._start(pod)
        else:
            pod.reason, pod.message = "Unschedulable", found
            self.report("Pod", pod.name, "FailedScheduling", found)

    def _start(self, pod: Pod) -> None:
        assert pod.node is not None
        token = self.access.tokens.get(pod.spec.get("serviceAccountName", "default"))
        try:
            environment = self.surroundings.environment(pod.name, pod.spec, token)
        except UnresolvedError as err:
            (pod.reason, pod.message), pod.waiting = err.args, True
            self.report("Pod", pod.name, pod.reason, pod.message)
            return
        pod.reason, pod.message, pod.waiting = "", "", False
        command = [*(pod.container.get("command") or ()), *(pod.container.get("args") or ())]
        self.node(pod.node).run(pod.uid, command, environment, pod.log)

    def _collect_garbage(self) -> None:
        """Delete Jobs whose owner is gone."""
        here = {pod.uid for pod in self.pods.values()}
        for job in [job for job in self.jobs.values() if job.owners and not job.owners & here]:
            self.delete_job(job, orphan=False)

    def pods_of_run(self, run_id: str) -> list[Pod]:
        """Return the pods of a run and of its steps that are still there."""
        with self.lock:
            return [pod for pod in self.pods.values() if pod.labels.get("dagster/run-id") == run_id]

    def _pods_of(self, job: Job) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.owner == job.uid]

    def _running_on(self, node: str) -> Iterator[Pod]:
        return (pod for pod in self.pods.values() if pod.node == node and not pod.has_ended)

    def _used(self, node: Node) -> Amounts:
        total: Amounts = {}
        for pod in self._running_on(node.name):
            for name, amount in requested(pod.spec).items():
                total[name] = total.get(name, 0 * amount) + amount
        return total
