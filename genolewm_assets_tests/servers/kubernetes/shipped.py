"""The installation of ``deploy/kubernetes`` on a cluster of this machine: its manifests, with the places exchanged."""

from __future__ import annotations

import os
import secrets
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from genolewm_assets_tests.places import REPOSITORY
from genolewm_assets_tests.servers.kubernetes.api import kubeconfig
from genolewm_assets_tests.servers.kubernetes.cluster import Cluster, Node
from genolewm_assets_tests.servers.kubernetes.manifests import FOLDER, manifests


def some_nodes() -> list[Node]:
    """Return a CPU node, a tainted H100 node, and a node with another card that has no taint."""
    card = {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.count": "1"}
    h100, l40s = ({**card, "nvidia.com/gpu.product": name} for name in ("NVIDIA-H100-80GB-HBM3", "NVIDIA-L40S"))
    return [Node("cpu-1"), Node("h100-1", h100, ["nvidia.com/gpu"]), Node("l40s-1", l40s)]


def some_tokens() -> dict[str, str]:
    return {each["metadata"]["name"]: secrets.token_hex(32) for each in manifests("ServiceAccount")}


class Shipped:
    """What is shipped, for one root; ``home`` (``DAGSTER_HOME``) is in place of the mounted config map."""

    def __init__(self, root: Path, catalog: str, home: Path, kubeconfig: Path, database: Mapping[str, str]) -> None:
        self.root, self.home, self.kubeconfig, self.database = root, home, kubeconfig, database
        shipped = manifests("ConfigMap")[0]["data"]
        #: The config map that pods have as environment; a pod that starts later has what was changed.
        self.settings: dict[str, str] = {name: self.moved(value) for name, value in shipped.items()}
        # The card is declared, not there.
        self.settings |= {"GENOLEWM_CATALOG": catalog, "GENOLEWM_CACHE": os.environ["GENOLEWM_CACHE"]}
        self.settings |= {"GENOLEWM_DEVICE": "cpu"}
        path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
        images = {self.settings["GENOLEWM_IMAGE"]: {"PATH": path, "PYTHONPATH": str(REPOSITORY)}}
        maps = {"genolewm-settings": self.settings, "genolewm-database": database}
        self.cluster = Cluster(some_nodes(), some_tokens(), images, kubeconfig.parent / "pods", maps)

    def moved(self, text: str) -> str:
        """Exchange the places of a container for those of this installation."""
        return text.replace("/srv/genolewm", str(self.root)).replace("/etc/genolewm", str(self.home))

    def instance_settings(self) -> dict[str, Any]:
        """Return the shipped ``dagster.yaml``, with the kubeconfig in place of the token of a container."""
        shipped: dict[str, Any] = yaml.safe_load(self.moved((FOLDER / "dagster.yaml").read_text()))
        own = {"load_incluster_config": False, "kubeconfig_file": str(self.kubeconfig)}
        shipped["run_launcher"]["config"] |= own
        return shipped

    def environment_of(self, account: str) -> dict[str, str]:
        """Return the environment of a process outside the cluster that is taken for a service account."""
        return {**self.settings, **self.database, "KUBERNETES_TOKEN": self.cluster.tokens[account]}

    def write_kubeconfig(self, url: str) -> None:
        self.kubeconfig.write_text(kubeconfig(url))
