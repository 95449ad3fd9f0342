"""Settings of a deployment (root, catalogue, device, executor) from environment variables; the workspace resource."""

from __future__ import annotations

import os

import dagster as dg

from genolewm_assets.defs.runtime.workspace import Workspace
from genolewm_assets.errors import ConfigurationError

DEFAULT_ROOT = "data"
DEFAULT_CATALOG = "sample"


def configured_root() -> str:
    """Return ``GENOLEWM_ROOT``, by default ``data``."""
    return os.environ.get("GENOLEWM_ROOT", DEFAULT_ROOT)


def configured_catalog() -> str:
    """Return ``GENOLEWM_CATALOG``, by default ``sample``."""
    return os.environ.get("GENOLEWM_CATALOG", DEFAULT_CATALOG)


def configured_device() -> str:
    """Return ``GENOLEWM_DEVICE``, the torch device that computes states; ``auto`` (default): the best available one."""
    return os.environ.get("GENOLEWM_DEVICE", "auto")


def configured_executor() -> dg.ExecutorDefinition:
    """Return the executor that ``GENOLEWM_EXECUTOR`` names: ``in_process`` (default) or ``multiprocess``.

    One executor serves every asset, because Dagster has no executor per asset.

    Raises
    ------
    ConfigurationError
        If the name is neither of the two.
    """
    executors = {"in_process": dg.in_process_executor, "multiprocess": dg.multiprocess_executor}
    name = os.environ.get("GENOLEWM_EXECUTOR", "in_process")
    if name not in executors:
        raise ConfigurationError(
            "GENOLEWM_EXECUTOR", "unknown executor", expected=" or ".join(executors), got=repr(name)
        )
    return executors[name]


class WorkspaceResource(dg.ConfigurableResource[Workspace]):
    """Dagster resource with the root directory and the catalogue of a deployment."""

    root: str
    catalog: str

    def open(self) -> Workspace:
        """Return the opened workspace; raises ``CatalogError`` or ``RootError`` as :meth:`Workspace.open`."""
        return Workspace.open(self.root, self.catalog)
