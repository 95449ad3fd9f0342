"""Environment variables for Dagster processes of this project: root, catalogue, DAGSTER_HOME, telemetry off."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from genolewm_assets.errors import CatalogError, ConfigurationError
from genolewm_assets.sources.catalog import built_in_catalogs, load_catalog

#: Environment variables that turn off usage reports of Dagster, Hugging Face and Ray.
TELEMETRY_OFF: Mapping[str, str] = {
    "DAGSTER_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def prepare_environment(root: Path, catalog: str) -> dict[str, str]:
    """Create ``<root>/dagster`` with ``dagster.yaml``, and return the variables that a Dagster process needs.

    Parameters
    ----------
    root
        Root of the artefacts; created if missing.
    catalog
        Name of a built-in catalogue or path of a YAML file; a path is made absolute.

    Returns
    -------
    dict of str to str
        ``GENOLEWM_ROOT``, ``GENOLEWM_CATALOG``, ``DAGSTER_HOME`` and the telemetry switches.

    Raises
    ------
    CatalogError
        If the catalogue cannot be loaded, or the package lacks its ``dagster.yaml``.
    ConfigurationError
        If the root cannot be created.
    """
    loaded = load_catalog(catalog)
    home = root.resolve() / "dagster"
    try:
        home.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_instance_settings(), home / "dagster.yaml")
    except OSError as err:
        raise ConfigurationError(
            str(root), f"the root cannot be written ({err.strerror})", remedy="Choose a writable folder with --root"
        ) from err
    return {
        "GENOLEWM_ROOT": str(root.resolve()),
        "GENOLEWM_CATALOG": catalog if catalog in built_in_catalogs() else str(loaded.file),
        "DAGSTER_HOME": str(home),
        **TELEMETRY_OFF,
    }


def ui_command(port: int) -> list[str]:
    """Return the command that runs the Dagster UI on 127.0.0.1, its code server and its daemon."""
    module = "genolewm_assets.definitions"
    return [sys.executable, "-m", "dagster", "dev", "-m", module, "-h", "127.0.0.1", "-p", str(port)]


def enter_environment(root: Path, catalog: str) -> None:
    """Set the variables of :func:`prepare_environment` in this process."""
    os.environ.update(prepare_environment(root, catalog))


def _instance_settings() -> Path:
    """Return the path of ``dagster.yaml``: in the installed package, or at the top of a source checkout."""
    package = Path(__file__).parent
    for candidate in (package / "dagster.yaml", package.parent / "dagster.yaml"):
        if candidate.is_file():
            return candidate
    raise CatalogError(str(package), "dagster.yaml is missing", remedy="Reinstall the package")
