"""Resources: the workspace that every asset reads its sources from and publishes to."""

from __future__ import annotations

import os

import dagster as dg

from genolewm_assets.defs.workspace import Workspace

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


class WorkspaceResource(dg.ConfigurableResource[Workspace]):
    """The root directory and the catalogue of one deployment."""

    root: str
    catalog: str

    def open(self) -> Workspace:
        """Open the root for its catalogue; raises ``CatalogError`` or ``RootError``."""
        return Workspace.open(self.root, self.catalog)
