"""Settings of one deployment: root, catalogue, device and executor by the environment, and the workspace resource."""

from __future__ import annotations

import os

import dagster as dg

from genolewm_assets.defs.runtime.workspace import Workspace
from genolewm_assets.errors import ConfigurationError

DEFAULT_ROOT = "data"
DEFAULT_CATALOG = "sample"


def configured_root() -> str:
    """Return ``GENOLEWM_ROOT`` or the default root."""
    return os.environ.get("GENOLEWM_ROOT", DEFAULT_ROOT)


def configured_catalog() -> str:
    """Return ``GENOLEWM_CATALOG`` or the default catalogue."""
    return os.environ.get("GENOLEWM_CATALOG", DEFAULT_CATALOG)


def configured_device() -> str:
    """Return ``GENOLEWM_DEVICE``: where states are computed, as torch names it; by default the best there is."""
    return os.environ.get("GENOLEWM_DEVICE", "auto")


def configured_executor() -> dg.ExecutorDefinition:
    """Return the executor that ``GENOLEWM_EXECUTOR`` names: ``in_process`` (default) or ``multiprocess``.

    Dagster has none per asset.

    Raises
    ------
    ConfigurationError
        If the name is not one of them.
    """
    executors = {"in_process": dg.in_process_executor, "multiprocess": dg.multiprocess_executor}
    name = os.environ.get("GENOLEWM_EXECUTOR", "in_process")
    if name not in executors:
        raise ConfigurationError(
            "GENOLEWM_EXECUTOR", "unknown executor", expected=" or ".join(executors), got=repr(name)
        )
    return executors[name]


class WorkspaceResource(dg.ConfigurableResource[Workspace]):
    """The root directory and the catalogue of one deployment."""

    root: str
    catalog: str

    def open(self) -> Workspace:
        """Open the root for its catalogue; raises ``CatalogError`` or ``RootError``."""
        return Workspace.open(self.root, self.catalog)
