"""Environment and command of Dagster processes of this project: root, catalogue, DAGSTER_HOME, telemetry off.

Dagster and ``python -m`` import from the working directory and Dagster reads ``.env`` there. So its processes run in
:data:`WORKING_FOLDER` with ``PYTHONSAFEPATH``.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from genolewm_assets.errors import CatalogError, ConfigurationError, RootError
from genolewm_assets.sources.catalog import built_in_catalogs, load_catalog
from genolewm_assets.store.artefacts import ROOT_FILE, Root
from genolewm_assets.store.files import write_atomic

#: Environment variables that turn off usage reports of Dagster, Hugging Face and Ray.
TELEMETRY_OFF: Mapping[str, str] = {
    "DAGSTER_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}

#: Working directory of Dagster's processes: only an administrator puts files there.
WORKING_FOLDER = Path("/")


def prepare_environment(root: Path, catalog: str) -> dict[str, str]:
    """Create ``<root>/dagster`` with ``dagster.yaml``, and return the variables that a Dagster process needs."""
    environment = environment_of(root, catalog)
    home = Path(environment["DAGSTER_HOME"])
    _check_home(home)
    if (home.parent / ROOT_FILE).exists():
        loaded = load_catalog(catalog)
        Root(root).check_owner(loaded.name, loaded.genome_digest)
    settings, shipped = home / "dagster.yaml", _instance_settings().read_bytes()
    try:
        home.mkdir(parents=True, exist_ok=True)
        # A UI may run on the root: its processes read the file at any time.
        if not settings.is_file() or settings.read_bytes() != shipped:
            write_atomic(settings, shipped)
    except OSError as err:
        raise ConfigurationError(
            str(root), f"the root cannot be written ({err.strerror})", remedy="Choose a writable folder with --root"
        ) from err
    return environment


def environment_of(root: Path, catalog: str) -> dict[str, str]:
    """Return the variables of :func:`prepare_environment`; nothing is created."""
    loaded = load_catalog(catalog)
    home = Root(root).path / "dagster"
    return {
        "GENOLEWM_ROOT": str(home.parent),
        "GENOLEWM_CATALOG": catalog if catalog in built_in_catalogs() else str(loaded.file),
        "DAGSTER_HOME": str(home),
        "PYTHONSAFEPATH": "1",
        "PYTHONPATH": _python_path(),
        **TELEMETRY_OFF,
    }


def _check_home(home: Path) -> None:
    # Dagster writes the path into the URL of its SQLite databases as it is.
    if found := sorted(set("%?") & set(str(home))):
        raise RootError(
            str(home.parent),
            f"Dagster cannot keep its databases in a root whose path holds {' or '.join(map(repr, found))}",
            remedy="Choose another folder with --root",
        )


def ui_command(port: int) -> list[str]:
    """Return the command that runs the Dagster UI on 127.0.0.1, its code server and its daemon; see ``ui_server``.

    It is for :data:`WORKING_FOLDER` and the environment of :func:`prepare_environment`.
    """
    return [sys.executable, "-P", "-m", "genolewm_assets.ui_server", str(port)]


def enter_environment(root: Path, catalog: str) -> None:
    """Set the variables of :func:`prepare_environment` in this process."""
    os.environ.update(prepare_environment(root, catalog))


def _python_path() -> str:
    """Return ``PYTHONPATH`` for a process in another folder, which then imports this package from where it lies now."""
    folders = [os.path.abspath(folder) for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]  # noqa: PTH100
    checkout = str(Path(__file__).resolve().parents[1])
    if checkout not in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *folders}:
        folders.insert(0, checkout)
    return os.pathsep.join(folders)


def _instance_settings() -> Path:
    """Return the path of ``dagster.yaml``: in the installed package, or at the top of a source checkout."""
    package = Path(__file__).parent
    for candidate in (package / "dagster.yaml", package.parent / "dagster.yaml"):
        if candidate.is_file():
            return candidate
    raise CatalogError(str(package), "dagster.yaml is missing", remedy="Reinstall the package")
