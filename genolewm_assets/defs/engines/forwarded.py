"""Settings that every step of a run takes from the run, whatever the engine, so that all build in one root."""

from __future__ import annotations

import os
from pathlib import Path

from genolewm_assets.errors import ConfigurationError

#: Engines show them to everyone who may look at jobs. Passwords are not among them, nor is what differs between nodes
#: (``GENOLEWM_DEVICE``, ``GENOLEWM_CACHE``): each node has these in its own environment.
FORWARDED = (
    "GENOLEWM_ROOT",
    "GENOLEWM_CATALOG",
    "GENOLEWM_EXECUTOR",
    "GENOLEWM_GPU_PRODUCT",
    "GENOLEWM_BATCH_WINDOWS",
    "GENOLEWM_COMPUTE",
    "GENOLEWM_WITHOUT_STATES",
    "GENOLEWM_COMPILER",
    "GENOLEWM_HASHED",
    "GENOLEWM_RUN_LOGS",
    "GENOLEWM_RUN_FILES",
    "GENOLEWM_SOURCE_URL",
    "GENOLEWM_UI_URL",
)


def forwarded_settings(*further: str) -> list[str]:
    """Return the settings of this process as ``NAME=value``; ``further`` names those of one engine."""
    check_places()
    return [f"{name}={os.environ[name]}" for name in (*FORWARDED, *further) if os.environ.get(name)]


def check_places() -> None:
    """Refuse a root or catalogue that would be another one in the folder where a step or job runs.

    Raises
    ------
    ConfigurationError
        If a path is not absolute.
    """
    root, catalog = os.environ.get("GENOLEWM_ROOT", ""), os.environ.get("GENOLEWM_CATALOG", "")
    if not Path(root).is_absolute():
        raise ConfigurationError("GENOLEWM_ROOT", "not a path for every node", expected="absolute", got=repr(root))
    if "/" in catalog and not Path(catalog).is_absolute():
        raise ConfigurationError(
            "GENOLEWM_CATALOG", "not a path for every node", expected="absolute, or a built-in name", got=repr(catalog)
        )
