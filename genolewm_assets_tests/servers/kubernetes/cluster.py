"""Jobs, their pods and nodes: a pod is the command of its container, with the environment of its container."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import threading
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from genolewm_assets_tests.servers.kubernetes.manifests import security_faults
from genolewm_assets_tests.servers.programs import program


def timestamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class Node:
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[str] = ()
    cordoned: bool = False

    def refusal(self, spec: Mapping[str, Any]) -> str:
        """Return why a pod cannot be placed here, in the words of kube-scheduler; empty if it can."""
        if self.cordoned:
            return "node(s) were unschedulable"
        tolerated = {each.get("key") for each in spec.get("tolerations") or () if each.get("effect") == "NoSchedule"}
        if refused := set(self.taints) - tolerated:
            return f"node(s) had untolerated taint {refused}"
        affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
        required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {"nodeSelectorTerms": [{}]})
        terms = [each.get("matchExpressions", ()) for each in required["nodeSelectorTerms"]]
        selected = (spec.get("nodeSelector") or {}).items() <= self.labels.items()
        if selected and any(all(map(self._matches, term)) for term in terms):
            return ""
        return "node(s) didn't match Pod's node affinity/selector"

    def _matches(self, expression: Mapping[str, Any]) -> bool:
        value = self.labels.get(expression["key"])
        answers = {"DoesNotExist": value is None, "In": value in expression.get("values", ())}
        return answers[expression["operator"]]


@dataclass
class Pod:
    """A pod as the API shows it, and its process."""

    manifest: dict[str, Any]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    is_going: bool = False

    name = property(lambda self: self.manifest["metadata"]["name"])
    labels = property(lambda self: self.manifest["metadata"]["labels"])
    spec = property(lambda self: self.manifest["spec"])
    status = property(lambda self: self.manifest["status"])
    node = property(lambda self: self.spec.get("nodeName"))
    has_ended = property(lambda self: self.status["phase"] in {"Succeeded", "Failed"})

    def show(self, phase: str, **state: Mapping[str, Any]) -> None:
        """Set phase and state of the container."""
        container = self.spec["containers"][0]
        shown = {"name": container["name"], "image": container["image"], "imageID": "", "ready": False}
        self.status.update(phase=phase, containerStatuses=[{**shown, "restartCount": 0, "state": state}])

    def end(self, how: signal.Signals) -> None:
        """Signal the first process; SIGKILL goes to all."""
        if self.process is not None and self.process.poll() is None:
            (os.killpg if how is signal.SIGKILL else os.kill)(self.process.pid, how)


@dataclass
class Cluster:
    """Jobs, pods and events of a namespace; ``images`` and ``config_maps`` are by name the environment they give."""

    nodes: Sequence[Node]
    tokens: Mapping[str, str] = field(repr=False)
    images: Mapping[str, Mapping[str, str]]
    folder: Path
    config_maps: Mapping[str, Mapping[str, str]] = field(repr=False, default_factory=dict)
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    past: list[Pod] = field(default_factory=list)  # all that there ever were
    events: list[dict[str, Any]] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    def run(self, ended: threading.Event) -> None:
        """Bring pods where they should be until ``ended`` is set; then end them all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        while not ended.wait(0.05):
            with self.lock:
                for job in list(self.jobs.values()):
                    self._control(job)
                for pod in list(self.pods.values()):
                    self._advance(pod)
        for pod in self.past:
            pod.end(signal.SIGKILL)
            if pod.process is not None:
                pod.process.wait()

    def lose_node(self, name: str) -> None:
        """End all that runs on a node at once; after that the node is there again."""
        with self.lock:
            for pod in [each for each in self.pods.values() if each.node == name and not each.has_ended]:
                pod.end(signal.SIGKILL)
                pod.status.update(phase="Failed", reason="NodeLost", message=f"Node {name} which was running pod")

    def delete_pod(self, pod: Pod) -> None:
        """Ask a pod to end; it is gone as soon as it has."""
        if not pod.is_going:
            pod.is_going = True
            pod.end(signal.SIGTERM)

    def pods_of_run(self, run_id: str) -> list[Pod]:
        with self.lock:
            return [pod for pod in self.pods.values() if pod.labels.get("dagster/run-id") == run_id]

    def _report(self, job: str, reason: str, message: str) -> None:
        event = {"reason": reason, "message": message, "type": "Warning", "metadata": {"name": job}}
        event |= {"involvedObject": {"kind": "Job", "name": job}, "lastTimestamp": timestamp()}
        self.events.append(event)

    def _control(self, job: dict[str, Any]) -> None:
        """Do what the Job controller does: make the pod, count, end at the deadline or with the pod."""
        status, spec, name = job["status"], job["spec"], job["metadata"]["name"]
        mine = [pod for pod in self.pods.values() if pod.labels["job-name"] == name]
        status["active"] = sum(not pod.has_ended and not pod.is_going for pod in mine)
        began = datetime.strptime(status["startTime"], "%Y-%m-%dT%H:%M:%S%z")
        if "conditions" in status:
            return
        if (datetime.now(UTC) - began).total_seconds() >= spec.get("activeDeadlineSeconds", float("inf")):
            status["failed"] = status.get("failed", 0) + status["active"]
            for pod in mine:
                self.delete_pod(pod)
            self._end(job, "Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
        elif any(pod.status["phase"] == "Succeeded" for pod in mine):
            status["succeeded"] = 1
            self._end(job, "Complete", "CompletionsReached", "Reached expected number of succeeded pods")
        elif any(pod.labels["job-name"] == name for pod in self.past) and not status["active"]:
            status["failed"] = 1
            self._end(job, "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
        elif not mine:
            self._make_pod(job)

    def _end(self, job: dict[str, Any], kind: str, reason: str, message: str) -> None:
        job["status"]["conditions"] = [{"type": kind, "status": "True", "reason": reason, "message": message}]
        if kind == "Failed":
            self._report(job["metadata"]["name"], reason, message)

    def _make_pod(self, job: dict[str, Any]) -> None:
        template, owner = job["spec"]["template"], job["metadata"]
        account = template["spec"]["serviceAccountName"]
        faults = [] if account in self.tokens else [f'serviceaccount "{account}" not found']
        if faults := [*faults, *security_faults(template["spec"])]:
            message = f'Error creating: pods "{owner["name"]}-" is forbidden: {", ".join(faults)}'
            self._report(owner["name"], "FailedCreate", message)
            return
        name = f"{owner['name']}-{secrets.token_hex(3)}"
        metadata = {"name": name, "uid": str(uuid.uuid4()), "creationTimestamp": timestamp()}
        metadata["labels"] = {**template["metadata"]["labels"], "job-name": owner["name"]}  # type: ignore[assignment]
        shown = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**template["spec"]}}
        self.pods[name] = Pod({**shown, "status": {"phase": "Pending"}}, self.folder / f"{name}.log")
        self.past.append(self.pods[name])

    def _advance(self, pod: Pod) -> None:
        """Place and start a pod that waits, note its end, and remove one that is to go."""
        if pod.process is not None and not pod.has_ended and (code := pod.process.poll()) is not None:
            ended = {"exitCode": code if code >= 0 else 128 - code, "reason": "Error" if code else "Completed"}
            pod.show("Failed" if code else "Succeeded", terminated=ended)
        if pod.is_going and (pod.process is None or pod.process.poll() is not None):
            del self.pods[pod.name]
        elif not pod.is_going and pod.status["phase"] == "Pending" and pod.node is None:
            refusals = {node.name: node.refusal(pod.spec) for node in self.nodes}
            fitting = [name for name, refused in refusals.items() if not refused]
            told = ", ".join(sorted(f"{n} {refused}" for refused, n in Counter(refusals.values()).items()))
            waits = {"reason": "Unschedulable", "message": f"0/{len(self.nodes)} nodes are available: {told}."}
            condition = {"type": "PodScheduled", "status": str(bool(fitting)), **({} if fitting else waits)}
            pod.status["conditions"] = [condition]
            if fitting:
                pod.spec["nodeName"] = fitting[0]
                self._start(pod)

    def _start(self, pod: Pod) -> None:
        (container,) = pod.spec["containers"]
        if container["image"] not in self.images:
            message = f'Back-off pulling image "{container["image"]}"'
            pod.show("Pending", waiting={"reason": "ImagePullBackOff", "message": message})
            return
        environment = {**self.images[container["image"]], "HOSTNAME": pod.name}
        for source in (each for one in container.get("envFrom") or () for each in one.values()):
            environment |= self.config_maps[source["name"]]
        environment |= {each["name"]: each.get("value", "") for each in container.get("env") or ()}
        if pod.spec.get("automountServiceAccountToken", True):
            environment["KUBERNETES_TOKEN"] = self.tokens[pod.spec["serviceAccountName"]]
        # A pod ends with the test.
        words = [program("setpriv"), "--pdeathsig=KILL"]
        words += [*(container.get("command") or ()), *(container.get("args") or ())]
        own: dict[str, Any] = {"env": environment, "cwd": "/", "stdin": subprocess.DEVNULL, "start_new_session": True}
        with pod.log.open("ab") as log:
            pod.process = subprocess.Popen(words, stdout=log, stderr=log, **own)
        pod.show("Running", running={})
