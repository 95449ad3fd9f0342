"""The manifests of ``deploy/kubernetes``, and what the API refuses: broken schemas, and pods that are not confined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import kubernetes_validate
import yaml

from genolewm_assets_tests.places import REPOSITORY

FOLDER = REPOSITORY / "deploy/kubernetes"
NAMESPACE = "genolewm"


@cache
def manifests(kind: str | None = None) -> list[dict[str, Any]]:
    """Return every object, or those of a kind, that the kustomization applies from files."""
    names = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"]
    found = [each for name in names for each in yaml.safe_load_all((FOLDER / name).read_text())]
    return [each for each in found if kind in (None, each["kind"])]


def schema_fault(manifest: Mapping[str, Any], version: str | None = None) -> str | None:
    """Return what the strict schema of a version (by default the newest) finds wrong; None if nothing."""
    try:
        kubernetes_validate.validate(dict(manifest), version or kubernetes_validate.latest_version(), strict=True)
    except kubernetes_validate.ValidationError as err:
        return f"{'.'.join(map(str, err.path))}: {err.message}"
    return None


def security_faults(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield how a pod breaks the Pod Security Standard "restricted"."""
    yield from (name for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name))
    yield from ("hostPath volume" for volume in spec.get("volumes") or () if volume.get("hostPath"))
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        own = {**(spec.get("securityContext") or {}), **(container.get("securityContext") or {})}
        holds = {"allowPrivilegeEscalation": own.get("allowPrivilegeEscalation") is False}
        holds["capabilities"] = own.get("capabilities") == {"drop": ["ALL"]}
        holds["runAsNonRoot"] = bool(own.get("runAsNonRoot")) and own.get("runAsUser") != 0
        holds["seccompProfile"] = (own.get("seccompProfile") or {}).get("type") in {"RuntimeDefault", "Localhost"}
        yield from (name for name, right in holds.items() if not right)
