"""The API server: authentication, authorisation, admission, and the endpoints that Dagster uses."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

from genolewm_assets_tests.servers.kubernetes.admission import schema_fault
from genolewm_assets_tests.servers.kubernetes.cluster import Cluster
from genolewm_assets_tests.servers.kubernetes.workloads import Job, Pod

_PATH = re.compile(
    r"/(?:api/v1|apis/(?P<group>batch)/v1)/namespaces/(?P<namespace>[^/]+)"
    r"/(?P<resource>[a-z]+)(?:/(?P<name>[^/]+))?(?:/(?P<part>[a-z]+))?"
)
_KINDS = {("batch", "jobs"): "Job", ("", "pods"): "Pod", ("", "events"): "Event"}


class RefusedError(Exception):
    """The server refuses a request: status code, reason and message."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    cluster: Cluster

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass

    def do_GET(self) -> None:
        self._serve("get")

    def do_POST(self) -> None:
        self._serve("create")

    def do_DELETE(self) -> None:
        self._serve("delete")

    def _serve(self, verb: str) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or b"null")
        try:
            status, answer = (201 if verb == "create" else 200), self._answer(verb, body)
        except RefusedError as err:
            status, reason, message = err.args
            answer = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status}
            answer |= {"reason": reason, "message": message, "metadata": {}}
        content = answer.encode(errors="surrogateescape") if isinstance(answer, str) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if isinstance(answer, str) else "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _answer(self, verb: str, body: Any) -> str | dict[str, Any]:
        account = self.cluster.access.account_of(self.headers.get("Authorization"))
        if account is None:
            raise RefusedError(401, "Unauthorized", "Unauthorized")
        address = urlsplit(self.path)
        found = _PATH.fullmatch(address.path)
        if found is None or (found["group"] or "", found["resource"]) not in _KINDS:
            raise RefusedError(404, "NotFound", "the server could not find the requested resource")
        query = {name: values[-1] for name, values in parse_qs(address.query).items()}
        if verb == "get" and found["name"] is None:
            verb = "list"
        _authorize(self.cluster, account, verb, found)
        fault = schema_fault(body) if verb == "create" else None
        with self.cluster.lock:
            if verb == "create":
                return _create(self.cluster, found, body, fault)
            if verb == "list":
                return _list(self.cluster, found, query)
            return _one(self.cluster, verb, found, query, body)


def _authorize(cluster: Cluster, account: str, verb: str, found: re.Match[str]) -> None:
    group, resource, namespace = found["group"] or "", found["resource"], found["namespace"]
    part = f"{resource}/{found['part']}" if found["part"] else resource
    if namespace != cluster.access.namespace or not cluster.access.allows(account, verb, group, part):
        who = f"system:serviceaccount:{cluster.access.namespace}:{account}"
        what = f'cannot {verb} resource "{part}" in API group "{group}" in the namespace "{namespace}"'
        named = f'{resource} "{found["name"]}"' if found["name"] else resource
        raise RefusedError(403, "Forbidden", f'{named} is forbidden: User "{who}" {what}')


def _create(cluster: Cluster, found: re.Match[str], body: Any, fault: str | None) -> dict[str, Any]:
    if found["resource"] != "jobs":
        raise RefusedError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
    if fault is not None:
        raise RefusedError(422, "Invalid", f"Job is invalid: {fault}")
    name = body["metadata"]["name"]
    if name in cluster.jobs:
        raise RefusedError(409, "AlreadyExists", f'jobs.batch "{name}" already exists')
    return cluster.create_job(body).manifest(cluster.access.namespace)


def _list(cluster: Cluster, found: re.Match[str], query: Mapping[str, str]) -> dict[str, Any]:
    namespace, resource = cluster.access.namespace, found["resource"]
    objects: Mapping[str, Callable[[], Iterator[dict[str, Any]]]] = {
        "jobs": lambda: (job.manifest(namespace) for job in cluster.jobs.values()),
        "pods": lambda: (pod.manifest(namespace) for pod in cluster.pods.values()),
        "events": lambda: iter(cluster.events),
    }
    items = [item for item in objects[resource]() if _fits(item, query)]
    kind = _KINDS[found["group"] or "", resource]
    version = "batch/v1" if found["group"] else "v1"
    return {"apiVersion": version, "kind": f"{kind}List", "metadata": {}, "items": items}


def _fits(item: Mapping[str, Any], query: Mapping[str, str]) -> bool:
    labels = item["metadata"].get("labels", {})
    if not _pairs(query.get("labelSelector")).items() <= labels.items():
        return False
    for path, wanted in _pairs(query.get("fieldSelector")).items():
        value: Any = item
        for step in path.split("."):
            value = value[step]
        if value != wanted:
            return False
    return True


def _pairs(selector: str | None) -> dict[str, str]:
    return dict(each.replace("==", "=").split("=", 1) for each in (selector or "").split(",") if each)


def _one(
    cluster: Cluster, verb: str, found: re.Match[str], query: Mapping[str, str], body: Any
) -> str | dict[str, Any]:
    kept: Mapping[str, Job | Pod] = cluster.jobs if found["resource"] == "jobs" else cluster.pods
    named = kept.get(found["name"])
    if named is None:
        raise RefusedError(404, "NotFound", f'{found["resource"]} "{found["name"]}" not found')
    if found["part"] == "log":
        assert isinstance(named, Pod)
        text = named.log.read_text(errors="surrogateescape") if named.log.exists() else ""
        return "".join(text.splitlines(keepends=True)[-int(query.get("tailLines", 0)) :])
    if verb == "delete":
        if isinstance(named, Job):
            # Of itself the API leaves the pods of a Job behind.
            policy = (body or {}).get("propagationPolicy") or query.get("propagationPolicy", "Orphan")
            cluster.delete_job(named, orphan=policy == "Orphan")
            return {"kind": "Status", "apiVersion": "v1", "status": "Success", "metadata": {}}
        cluster.delete_pod(named)
    return named.manifest(cluster.access.namespace)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, handler: type[_Handler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.faults: list[BaseException | None] = []

    def handle_error(self, request: object, client_address: object) -> None:
        """Note what went wrong, unless a client was killed while it asked."""
        if not isinstance(error := sys.exception(), ConnectionError):
            self.faults.append(error)


@contextmanager
def api_server(cluster: Cluster) -> Iterator[str]:
    """Run a cluster and serve it on a free port of 127.0.0.1 until the block ends; yields its address."""
    handler = type("_Handler", (_Handler,), {"cluster": cluster})
    cluster.start()
    with _Server(handler) as server:
        thread = threading.Thread(target=server.serve_forever, name="kubernetes-api", daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
            cluster.stop()
    assert server.faults == []


def kubeconfig(url: str, namespace: str, token_variable: str) -> str:
    """Return a kubeconfig whose token comes from a variable of the process that reads it."""
    credential = (
        '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "%s"}}'
    )
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never", "command": "/bin/sh"}
    plugin["args"] = ["-c", f"printf '{credential}' \"${token_variable}\""]  # type: ignore[assignment]
    context = {"cluster": "test", "user": "test", "namespace": namespace}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": context}],
            "clusters": [{"name": "test", "cluster": {"server": url}}],
            "users": [{"name": "test", "user": {"exec": plugin}}],
        }
    )
