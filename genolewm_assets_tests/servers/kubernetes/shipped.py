"""The installation of ``deploy/kubernetes`` on a cluster of this machine: its manifests, with the places exchanged."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from genolewm_assets_tests.places import REPOSITORY
from genolewm_assets_tests.servers.kubernetes.access import Access
from genolewm_assets_tests.servers.kubernetes.api import kubeconfig
from genolewm_assets_tests.servers.kubernetes.cluster import Cluster
from genolewm_assets_tests.servers.kubernetes.nodes import Node
from genolewm_assets_tests.servers.kubernetes.surroundings import Surroundings

FOLDER = REPOSITORY / "deploy/kubernetes"
NAMESPACE = "genolewm"

_GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def manifests() -> list[dict[str, Any]]:
    """Return every object that the kustomization applies from files."""
    names = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"]
    return [each for name in names for each in yaml.safe_load_all((FOLDER / name).read_text())]


def gpu_labels(product: str) -> dict[str, str]:
    """Return the labels that NVIDIA's GPU operator gives to a node with one card."""
    return {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.count": "1", "nvidia.com/gpu.product": product}


def some_nodes() -> list[Node]:
    """Return a CPU node, a tainted H100 node, and a node with another card that has no taint."""
    card = {"cpu": "32", "memory": "256Gi", "nvidia.com/gpu": "1"}
    return [
        Node("cpu-1", {"cpu": "16", "memory": "128Gi"}),
        Node("h100-1", card, gpu_labels("NVIDIA-H100-80GB-HBM3"), [_GPU_TAINT]),
        Node("l40s-1", card, gpu_labels("NVIDIA-L40S")),
    ]


@dataclass
class Shipped:
    """What is shipped, for one root.

    Attributes
    ----------
    home
        ``DAGSTER_HOME``, in place of the mounted config map.
    kubeconfig
        File that every process reads in place of the token that a container has.
    """

    root: Path
    catalog: str
    home: Path
    kubeconfig: Path
    database: Mapping[str, str] = field(repr=False)
    cluster: Cluster = field(init=False)

    def __post_init__(self) -> None:
        (data,) = [each["data"] for each in manifests() if each["kind"] == "ConfigMap"]
        settings = {name: self.moved(value) for name, value in data.items()}
        settings |= {"GENOLEWM_CATALOG": self.catalog, "GENOLEWM_CACHE": os.environ["GENOLEWM_CACHE"]}
        # The card is declared, not there.
        settings |= {"GENOLEWM_DEVICE": "cpu"}
        path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
        surroundings = Surroundings(
            images={settings["GENOLEWM_IMAGE"]: {"PATH": path, "PYTHONPATH": str(REPOSITORY)}},
            config_maps={"genolewm-settings": settings, "genolewm-instance": {}},
            secrets={"genolewm-database": self.database},
            claims={"genolewm-root": self.root},
        )
        access = Access.of_manifests(NAMESPACE, manifests())
        self.cluster = Cluster(some_nodes(), access, surroundings, self.kubeconfig.parent / "pods")

    @property
    def settings(self) -> dict[str, str]:
        """The config map that pods have as environment; a pod that starts later has what was changed."""
        found = self.cluster.surroundings.config_maps["genolewm-settings"]
        assert isinstance(found, dict)
        return found

    def moved(self, text: str) -> str:
        """Exchange the places of a container for those of this installation."""
        return text.replace("/srv/genolewm", str(self.root)).replace("/etc/genolewm", str(self.home))

    def instance_settings(self) -> dict[str, Any]:
        """Return the shipped ``dagster.yaml``, with the kubeconfig in place of the token of a container."""
        shipped: dict[str, Any] = yaml.safe_load(self.moved((FOLDER / "dagster.yaml").read_text()))
        shipped["run_launcher"]["config"] |= {
            "load_incluster_config": False,
            "kubeconfig_file": str(self.kubeconfig),
        }
        return shipped

    def environment_of(self, account: str) -> dict[str, str]:
        """Return the environment of a process outside the cluster that is taken for a service account."""
        token = {self.cluster.surroundings.token_variable: self.cluster.access.tokens[account]}
        return {**self.settings, **self.database, **token}

    def write_kubeconfig(self, url: str) -> None:
        self.kubeconfig.write_text(kubeconfig(url, NAMESPACE, self.cluster.surroundings.token_variable))
