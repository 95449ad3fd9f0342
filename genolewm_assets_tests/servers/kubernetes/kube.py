"""A person at the command line: creates Jobs in a cluster and looks at them, through the real client."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kubernetes import client

from genolewm_assets_tests.servers.kubernetes.cluster import Cluster
from genolewm_assets_tests.servers.kubernetes.shipped import NAMESPACE

CONFINED = {
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
ON_L40S = {"nvidia.com/gpu.product": "NVIDIA-L40S"}
#: Not a shell: one cannot trap a signal that was ignored when it began.
_LISTENING = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
print("ready", flush=True)
signal.pause()
"""
LISTENS = [sys.executable, "-ISc", _LISTENING]
STUBBORN = ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done"]


@dataclass(frozen=True, slots=True)
class Kube:
    """The cluster, and clients of its API as a service account."""

    cluster: Cluster
    url: str

    def _client(self, account: str) -> client.ApiClient:
        token = self.cluster.access.tokens.get(account, account)
        return client.ApiClient(client.Configuration(host=self.url), "Authorization", f"Bearer {token}")

    def batch(self, account: str = "genolewm-daemon") -> client.BatchV1Api:
        return client.BatchV1Api(self._client(account))

    def core(self, account: str = "genolewm-daemon") -> client.CoreV1Api:
        return client.CoreV1Api(self._client(account))

    def create(
        self,
        name: str,
        command: list[str],
        *,
        job: dict[str, Any] | None = None,
        owners: Sequence[dict[str, str]] = (),
        **spec: Any,
    ) -> None:
        """Create a Job; ``job`` and ``spec`` are added to its spec and to that of its pod."""
        container = {"name": "c", "image": "image", "command": command, "securityContext": CONFINED}
        pod = {"restartPolicy": "Never", "serviceAccountName": "genolewm-run", "containers": [container], **spec}
        asked = {"backoffLimit": 0, "template": {"metadata": {"labels": {"app": name}}, "spec": pod}, **(job or {})}
        metadata = {"name": name, "labels": {}, "ownerReferences": list(owners)}
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": asked}
        self.batch().create_namespaced_job(NAMESPACE, body)

    def job(self, name: str) -> client.V1JobStatus:
        return self.batch().read_namespaced_job_status(name, NAMESPACE).status

    def pods(self, name: str) -> list[client.V1Pod]:
        found: list[client.V1Pod] = self.core().list_namespaced_pod(NAMESPACE, label_selector=f"job-name={name}").items
        return found

    def log(self, pod: client.V1Pod) -> str:
        # Read as text by the client, it would be the representation of bytes.
        answer = self.core().read_namespaced_pod_log(
            pod.metadata.name, NAMESPACE, tail_lines=100, _preload_content=False
        )
        return str(answer.data.decode())

    def pid(self, name: str) -> int:
        """Wait until a pod of a Job has a process."""
        return int(eventually(lambda: next((p.pid for p in self.cluster.past if p.labels["app"] == name and p.pid), 0)))


def eventually(ask: Callable[[], Any]) -> Any:
    """Ask until the answer is true, and return it."""
    deadline = time.monotonic() + 30
    while not (found := ask()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found
