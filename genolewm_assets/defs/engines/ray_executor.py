"""Executor that runs each step as a job of a Ray cluster, through ``dagster-ray``.

What a step needs is in its op tags alone (``op_tags``): resources on the executor itself would replace those.
"""

from __future__ import annotations

import os
from typing import Any

import dagster as dg

from genolewm_assets.defs.engines.forwarded import forwarded_settings
from genolewm_assets.errors import ConfigurationError

#: Address of the head's job server, such as ``http://head.example.org:8265``. ``RAY_ADDRESS`` does not serve: inside a
#: job Ray sets it to another port.
ADDRESS_VARIABLE = "GENOLEWM_RAY_ADDRESS"


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
    """Return the configuration of ``dagster_ray.ray_executor``: address and forwarded settings, no resources."""
    address = os.environ.get(ADDRESS_VARIABLE, "")
    if not address.startswith(("http://", "https://")):
        raise ConfigurationError(
            ADDRESS_VARIABLE, "no address of a Ray head", expected="such as http://HEAD:8265", got=repr(address)
        )
    return {"ray": {"address": address, "env_vars": forwarded_settings(ADDRESS_VARIABLE)}}
