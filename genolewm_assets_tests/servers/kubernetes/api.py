"""The endpoints that Dagster uses, with the tokens and Roles of the manifests; and a person who asks them."""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import getitem
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml
from kubernetes import client

from genolewm_assets_tests.servers.kubernetes.cluster import Cluster, timestamp
from genolewm_assets_tests.servers.kubernetes.manifests import NAMESPACE, manifests, schema_fault
from genolewm_assets_tests.servers.web_server import QuietHandler, serving

_PATH = re.compile(
    r"/(?:api/v1|apis/(?P<group>batch)/v1)/namespaces/genolewm"
    r"/(?P<resource>jobs|pods|events)(?:/(?P<name>[^/]+))?(?:/(?P<part>[a-z]+))?"
)


class _Handler(QuietHandler):
    cluster: Cluster

    def do_GET(self) -> None:  # noqa: N802 - the base class's name
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null")
        status, answer = self._answer({"GET": "get", "POST": "create", "DELETE": "delete"}[self.command], body)
        content = answer.encode(errors="surrogateescape") if isinstance(answer, str) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if isinstance(answer, str) else "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET  # noqa: N815
    do_DELETE = do_GET  # noqa: N815

    def _answer(self, verb: str, body: Any) -> tuple[int, Any]:
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        account = next((name for name, own in self.cluster.tokens.items() if own == token), None)
        if account is None:
            return 401, {"message": "Unauthorized"}
        address = urlsplit(self.path)
        if (found := _PATH.fullmatch(address.path)) is None:
            return 404, {"message": "the server could not find the requested resource"}
        query = {name: values[-1] for name, values in parse_qs(address.query).items()}
        if verb == "get" and found["name"] is None:
            verb = "list"
        resource = "/".join(filter(None, (found["resource"], found["part"])))
        if not _allows(account, verb, found["group"] or "", resource):
            return 403, {"message": f'"{account}" cannot {verb} resource "{resource}"'}
        with self.cluster.lock:
            if verb == "create" and (fault := schema_fault(body)):
                return 422, {"message": f"Job is invalid: {fault}"}
            if verb == "create":
                body["metadata"]["uid"] = str(uuid.uuid4())
                self.cluster.jobs[body["metadata"]["name"]] = {**body, "status": {"startTime": timestamp()}}
                return 201, body
            return _list(self.cluster, found, query) if verb == "list" else _one(self.cluster, verb, found, query)


def _allows(account: str, verb: str, group: str, resource: str) -> bool:
    rules = [rule for each in manifests("Role") if each["metadata"]["name"] == account for rule in each["rules"]]
    return any(verb in r["verbs"] and group in r["apiGroups"] and resource in r["resources"] for r in rules)


def _list(cluster: Cluster, found: re.Match[str], query: Mapping[str, str]) -> tuple[int, Any]:
    pods = [pod.manifest for pod in cluster.pods.values()]
    objects = {"jobs": [*cluster.jobs.values()], "pods": pods, "events": cluster.events}[found["resource"]]
    labels, fields = (_pairs(query.get(f"{kind}Selector")).items() for kind in ("label", "field"))
    fitting = (item for item in objects if labels <= item["metadata"].get("labels", {}).items())
    items = [item for item in fitting if all(reduce(getitem, at.split("."), item) == value for at, value in fields)]
    return 200, {"metadata": {}, "items": items}


def _pairs(selector: str | None) -> dict[str, str]:
    return dict(each.replace("==", "=").split("=", 1) for each in (selector or "").split(",") if each)


def _one(cluster: Cluster, verb: str, found: re.Match[str], query: Mapping[str, str]) -> tuple[int, Any]:
    name, jobs = found["name"], found["resource"] == "jobs"
    if name not in (cluster.jobs if jobs else cluster.pods):
        return 404, {"message": f'{found["resource"]} "{name}" not found'}
    if found["part"] == "log":
        log = cluster.pods[name].log
        lines = log.read_text(errors="surrogateescape").splitlines(keepends=True) if log.exists() else []
        return 200, "".join(lines[-int(query.get("tailLines", 0)) :])
    answer = cluster.jobs[name] if jobs else cluster.pods[name].manifest
    if verb == "delete" and jobs:
        del cluster.jobs[name]  # its pods stay
    elif verb == "delete":
        cluster.delete_pod(cluster.pods[name])
    return 200, answer


@contextmanager
def api_server(cluster: Cluster) -> Iterator[str]:
    """Run a cluster and serve it on a free port of 127.0.0.1 until the block ends; yields its address."""
    ended = threading.Event()
    running = threading.Thread(target=cluster.run, args=(ended,), daemon=True)
    running.start()
    with serving(type("_Handler", (_Handler,), {"cluster": cluster})) as port:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            ended.set()
            running.join()


def kubeconfig(url: str) -> str:
    """Return a kubeconfig whose token comes from ``KUBERNETES_TOKEN`` of the process that reads it."""
    version = "client.authentication.k8s.io/v1"
    credential = json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": {"token": "%s"}})
    script = f"printf '{credential}' \"$KUBERNETES_TOKEN\""
    plugin = {"apiVersion": version, "interactiveMode": "Never", "command": "/bin/sh", "args": ["-c", script]}
    context = {"cluster": "test", "user": "test", "namespace": "genolewm"}
    parts = {"context": context, "cluster": {"server": url}, "user": {"exec": plugin}}
    named = {f"{part}s": [{"name": "test", part: value}] for part, value in parts.items()}
    return yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "current-context": "test", **named})


CONFINED = {"allowPrivilegeEscalation": False, "runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}}
CONFINED |= {"seccompProfile": {"type": "RuntimeDefault"}}
LISTENS = ["sleep", "600"]


@dataclass(frozen=True, slots=True)
class Kube:
    cluster: Cluster
    url: str

    def _client(self, account: str) -> client.ApiClient:
        token = self.cluster.tokens.get(account, account)
        return client.ApiClient(client.Configuration(host=self.url), "Authorization", f"Bearer {token}")

    def batch(self, account: str = "genolewm-daemon") -> client.BatchV1Api:
        return client.BatchV1Api(self._client(account))

    def core(self, account: str = "genolewm-daemon") -> client.CoreV1Api:
        return client.CoreV1Api(self._client(account))

    def create(self, name: str, command: list[str], *, job: dict[str, Any] | None = None, **spec: Any) -> None:
        """Create a Job; ``job`` and ``spec`` are added to its spec and to that of its pod."""
        container = {"name": "c", "image": "image", "command": command, "securityContext": CONFINED}
        pod = {"restartPolicy": "Never", "serviceAccountName": "genolewm-run", "containers": [container], **spec}
        asked = {"backoffLimit": 0, "template": {"metadata": {"labels": {"app": name}}, "spec": pod}, **(job or {})}
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "labels": {}}, "spec": asked}
        self.batch().create_namespaced_job(NAMESPACE, body)

    def job(self, name: str) -> client.V1JobStatus:
        return self.batch().read_namespaced_job_status(name, NAMESPACE).status

    def pods(self, name: str) -> list[client.V1Pod]:
        return list(self.core().list_namespaced_pod(NAMESPACE, label_selector=f"job-name={name}").items)


def eventually(ask: Callable[[], Any]) -> Any:
    for _ in range(1_500):
        if found := ask():
            return found
        time.sleep(0.02)
    raise TimeoutError
