"""Executor that runs each step as a job of a Ray cluster, through ``dagster-ray``.

What a step needs is in its op tags alone (``op_tags``). Resources on the executor itself would replace those of the
tags, and ``dagster-ray`` would pass the ones of an H100 step on to later steps of the run.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import dagster as dg

from genolewm_assets.errors import ConfigurationError

#: Address of the head's job server, such as ``http://head.example.org:8265``. ``RAY_ADDRESS`` does not serve: inside a
#: job Ray sets it to another port.
ADDRESS_VARIABLE = "GENOLEWM_RAY_ADDRESS"

#: Settings that a step takes from the run that launches it, so that all steps of a run build in one root. Ray shows
#: them to everyone who may ask it for jobs. Passwords are not among them: each node has them in its own environment,
#: as it has what differs between nodes (``GENOLEWM_DEVICE``, ``GENOLEWM_CACHE``).
FORWARDED = (
    "GENOLEWM_ROOT",
    "GENOLEWM_CATALOG",
    "GENOLEWM_EXECUTOR",
    "GENOLEWM_GPU_PRODUCT",
    "GENOLEWM_BATCH_WINDOWS",
    "GENOLEWM_COMPUTE",
    "GENOLEWM_COMPILER",
    "GENOLEWM_RUN_LOGS",
    "GENOLEWM_RUN_FILES",
    "GENOLEWM_SOURCE_URL",
    "GENOLEWM_UI_URL",
    ADDRESS_VARIABLE,
)


def make_ray_executor() -> dg.ExecutorDefinition:
    """Return the executor; run config can set none of its options.

    The settings are read when a run starts.

    Raises
    ------
    ConfigurationError
        If ``dagster-ray`` is not installed.
    """
    try:
        from dagster_ray import ray_executor
    except ImportError as err:
        raise ConfigurationError(
            "GENOLEWM_EXECUTOR",
            "the executor 'ray' is not installed",
            remedy="Install the extra on every node: pip install 'genolewm-assets[ray]'",
        ) from err
    executor: dg.ExecutorDefinition = ray_executor.configured(executor_config, config_schema={})
    return executor


def executor_config(_: object) -> dict[str, Any]:
    """Return the configuration of ``dagster_ray.ray_executor``: address and forwarded settings, no resources.

    Raises
    ------
    ConfigurationError
        If ``GENOLEWM_RAY_ADDRESS`` is no http or https URL, or a path is not absolute: the steps run in folders of Ray.
    """
    address = os.environ.get(ADDRESS_VARIABLE, "")
    if not address.startswith(("http://", "https://")):
        raise ConfigurationError(
            ADDRESS_VARIABLE, "no address of a Ray head", expected="such as http://HEAD:8265", got=repr(address)
        )
    root, catalog = os.environ.get("GENOLEWM_ROOT", ""), os.environ.get("GENOLEWM_CATALOG", "")
    if not Path(root).is_absolute():
        raise ConfigurationError("GENOLEWM_ROOT", "not a path for every node", expected="absolute", got=repr(root))
    if "/" in catalog and not Path(catalog).is_absolute():
        raise ConfigurationError(
            "GENOLEWM_CATALOG", "not a path for every node", expected="absolute, or a built-in name", got=repr(catalog)
        )
    return {
        "ray": {
            "address": address,
            "env_vars": [f"{name}={os.environ[name]}" for name in FORWARDED if os.environ.get(name)],
        }
    }
