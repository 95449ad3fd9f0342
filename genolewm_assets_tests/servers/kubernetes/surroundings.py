"""What pods refer to by name (images, config maps, secrets, claims), and the environment of a container."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class UnresolvedError(Exception):
    """A pod cannot start yet; the arguments are reason and message as a node reports them."""


@dataclass
class Surroundings:
    """Objects beside the pods.

    Attributes
    ----------
    images
        Environment that each image sets.
    config_maps, secrets
        Their data.
    claims
        Folder of each persistent volume claim. A pod has to mount it at this very path, since nothing is mounted.
    token_variable
        Variable with the token of the pod's service account, in place of the file that a container would have.
    """

    images: Mapping[str, Mapping[str, str]]
    config_maps: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    secrets: Mapping[str, Mapping[str, str]] = field(repr=False, default_factory=dict)
    claims: Mapping[str, Path] = field(default_factory=dict)
    token_variable: str = "KUBERNETES_TOKEN"

    def environment(self, pod_name: str, spec: Mapping[str, Any], token: str | None) -> dict[str, str]:
        """Return the environment of the container of a pod.

        Raises
        ------
        UnresolvedError
            If the pod refers to something that is not there.
        """
        (container,) = spec["containers"]
        if container["image"] not in self.images:
            raise UnresolvedError("ImagePullBackOff", f'Back-off pulling image "{container["image"]}"')
        self._check_volumes(spec, container)
        found = {**self.images[container["image"]], "HOSTNAME": pod_name}
        for source in container.get("envFrom") or ():
            found |= self._all_of(source)
        for entry in container.get("env") or ():
            found[entry["name"]] = self._value(entry)
        if token is not None and spec.get("automountServiceAccountToken", True):
            found[self.token_variable] = token
        return found

    def _all_of(self, source: Mapping[str, Any]) -> Mapping[str, str]:
        if "configMapRef" in source:
            return _named(self.config_maps, "configmap", source["configMapRef"]["name"])
        return _named(self.secrets, "secret", source["secretRef"]["name"])

    def _value(self, entry: Mapping[str, Any]) -> str:
        if "valueFrom" not in entry:
            return str(entry.get("value", ""))
        source = entry["valueFrom"]
        if "secretKeyRef" in source:
            return _named(self.secrets, "secret", source["secretKeyRef"]["name"])[source["secretKeyRef"]["key"]]
        reference = source["configMapKeyRef"]
        return _named(self.config_maps, "configmap", reference["name"])[reference["key"]]

    def _check_volumes(self, spec: Mapping[str, Any], container: Mapping[str, Any]) -> None:
        volumes = {volume["name"]: volume for volume in spec.get("volumes") or ()}
        for mount in container.get("volumeMounts") or ():
            volume = volumes[mount["name"]]
            if "configMap" in volume:
                _named(self.config_maps, "configmap", volume["configMap"]["name"])
            elif "persistentVolumeClaim" in volume:
                claim = volume["persistentVolumeClaim"]["claimName"]
                if self.claims.get(claim) != Path(mount["mountPath"]):
                    raise UnresolvedError("FailedMount", f'claim "{claim}" is not at {mount["mountPath"]}')
            elif "emptyDir" not in volume:
                raise UnresolvedError("FailedMount", f"volume {volume} is not known here")


def _named(found: Mapping[str, Mapping[str, str]], kind: str, name: str) -> Mapping[str, str]:
    if name not in found:
        raise UnresolvedError("CreateContainerConfigError", f'{kind} "{name}" not found')
    return found[name]
