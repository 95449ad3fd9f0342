"""What the API server refuses: objects that break the schema, and pods that break the restricted security standard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import kubernetes_validate


def schema_fault(manifest: Mapping[str, Any], version: str | None = None) -> str | None:
    """Return what the strict schema of a version (by default the newest) finds wrong; None if nothing."""
    try:
        kubernetes_validate.validate(dict(manifest), version or kubernetes_validate.latest_version(), strict=True)
    except kubernetes_validate.ValidationError as err:
        return f"{'.'.join(map(str, err.path))}: {err.message}"
    return None


def security_faults(spec: Mapping[str, Any]) -> list[str]:
    """Return how a pod breaks the Pod Security Standard "restricted"."""
    return sorted(set(_faults(spec)))


def _faults(spec: Mapping[str, Any]) -> Iterator[str]:
    pod = spec.get("securityContext") or {}
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(name):
            yield name
    yield from ("hostPath volume" for volume in spec.get("volumes") or () if volume.get("hostPath"))
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        own = container.get("securityContext") or {}
        if own.get("allowPrivilegeEscalation") is not False:
            yield "allowPrivilegeEscalation != false"
        if "ALL" not in (own.get("capabilities") or {}).get("drop", ()) or (own["capabilities"].get("add")):
            yield "unrestricted capabilities"
        if not own.get("runAsNonRoot", pod.get("runAsNonRoot")) or own.get("runAsUser", pod.get("runAsUser")) == 0:
            yield "runAsNonRoot != true"
        seccomp = own.get("seccompProfile") or pod.get("seccompProfile") or {}
        if seccomp.get("type") not in {"RuntimeDefault", "Localhost"}:
            yield "seccompProfile"
