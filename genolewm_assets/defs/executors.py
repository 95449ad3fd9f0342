"""The executor of the code location, chosen by ``GENOLEWM_EXECUTOR``; Dagster has none per asset."""

from __future__ import annotations

import os

import dagster as dg

from genolewm_assets.errors import ConfigurationError


def configured_executor() -> dg.ExecutorDefinition:
    """Return the executor that ``GENOLEWM_EXECUTOR`` names: ``in_process`` (default) or ``multiprocess``.

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
