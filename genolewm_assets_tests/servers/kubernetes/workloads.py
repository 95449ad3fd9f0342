"""Jobs and pods: what the cluster knows of them, and how the API shows it."""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

Phase = Literal["Pending", "Running", "Succeeded", "Failed"]


def timestamp(seconds: float) -> str:
    """Return a time in seconds since 1970 as the API writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class Pod:
    """One pod of a Job.

    Attributes
    ----------
    owner
        Uid of its Job; None once that was deleted and the pod left over.
    reason, message
        Why it waits, while it does; why it ended, after that.
    waiting
        Whether ``reason`` is one of its container rather than of the scheduler.
    kill_at
        When SIGKILL is due, in seconds of ``time.monotonic``; None as long as nothing ends it.
    """

    name: str
    owner: str | None
    template: Mapping[str, Any]
    log: Path
    uid: str = field(default_factory=lambda: str(uuid.uuid4()))
    created: float = field(default_factory=time.time)
    node: str | None = None
    phase: Phase = "Pending"
    pid: int | None = None
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    waiting: bool = False
    kill_at: float | None = None

    @property
    def spec(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.template["spec"]
        return found

    @property
    def container(self) -> Mapping[str, Any]:
        """The only container."""
        (container,) = self.spec["containers"]
        found: Mapping[str, Any] = container
        return found

    @property
    def labels(self) -> dict[str, str]:
        return dict(self.template["metadata"]["labels"])

    @property
    def has_ended(self) -> bool:
        return self.phase in {"Succeeded", "Failed"}

    def manifest(self, namespace: str) -> dict[str, Any]:
        """Return the pod as the API shows it."""
        metadata = {"name": self.name, "namespace": namespace, "uid": self.uid, "labels": self.labels}
        metadata["creationTimestamp"] = timestamp(self.created)
        if self.kill_at is not None:
            metadata["deletionTimestamp"] = timestamp(time.time() + self.kill_at - time.monotonic())
        spec = {**self.spec, **({"nodeName": self.node} if self.node else {})}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": self._status()}

    def _status(self) -> dict[str, Any]:
        status: dict[str, Any] = {"phase": self.phase}
        scheduled: dict[str, Any] = {"type": "PodScheduled", "status": "True" if self.node else "False"}
        if self.phase == "Pending" and self.reason and not self.waiting:
            scheduled |= {"reason": self.reason, "message": self.message}
        elif self.has_ended and self.reason and self.exit_code is None:
            status |= {"reason": self.reason, "message": self.message}
        if self.node or "reason" in scheduled:
            status["conditions"] = [scheduled]
        if (state := self._state()) is not None:
            container = {"name": self.container["name"], "image": self.container["image"], "imageID": ""}
            status["containerStatuses"] = [
                {**container, "ready": self.phase == "Running", "restartCount": 0, "state": state}
            ]
        return status

    def _state(self) -> dict[str, Any] | None:
        if self.node is None:
            return None
        if self.phase == "Pending":
            waiting = {"reason": self.reason, "message": self.message} if self.waiting else {}
            return {"waiting": waiting or {"reason": "ContainerCreating"}}
        if self.exit_code is not None:
            return {"terminated": {"exitCode": self.exit_code, "reason": "Error" if self.exit_code else "Completed"}}
        return {"running": {}} if self.phase == "Running" else None


@dataclass
class Job:
    """A Job of one pod, as its manifest asks for it."""

    body: Mapping[str, Any]
    uid: str = field(default_factory=lambda: str(uuid.uuid4()))
    created: float = field(default_factory=time.time)
    pods: int = 0
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    conditions: list[dict[str, str]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    @property
    def owners(self) -> set[str]:
        """Uids of the objects that it goes with."""
        return {each["uid"] for each in self.body["metadata"].get("ownerReferences") or ()}

    @property
    def labels(self) -> dict[str, str]:
        return dict(self.body["metadata"]["labels"])

    @property
    def is_over(self) -> bool:
        return bool(self.conditions)

    @property
    def is_late(self) -> bool:
        """Whether it has taken longer than ``activeDeadlineSeconds``, waiting included."""
        deadline_s = self.body["spec"].get("activeDeadlineSeconds")
        return deadline_s is not None and time.time() - self.created >= deadline_s

    def new_pod(self, folder: Path) -> Pod:
        """Return the pod that the Job's controller makes."""
        template = dict(self.body["spec"]["template"])
        own = {"job-name": self.name, "batch.kubernetes.io/job-name": self.name, "controller-uid": self.uid}
        template["metadata"] = {"labels": {**template["metadata"]["labels"], **own}}
        name = f"{self.name}-{secrets.token_hex(3)[:5]}"
        return Pod(name, self.uid, template, folder / f"{name}.log")

    def end(self, kind: Literal["Complete", "Failed"], reason: str, message: str) -> None:
        """Note that the Job is over, and why."""
        condition = {"type": kind, "status": "True", "reason": reason, "message": message}
        self.conditions.append({**condition, "lastTransitionTime": timestamp(time.time())})

    def manifest(self, namespace: str) -> dict[str, Any]:
        """Return the Job as the API shows it."""
        metadata = {**self.body["metadata"], "namespace": namespace, "uid": self.uid}
        metadata["creationTimestamp"] = timestamp(self.created)
        counts = {name: getattr(self, name) for name in ("active", "succeeded", "failed")}
        status: dict[str, Any] = {"startTime": timestamp(self.created)}
        status |= {name: count for name, count in counts.items() if count}
        if self.conditions:
            status["conditions"] = self.conditions
        return {**self.body, "metadata": metadata, "status": status}
