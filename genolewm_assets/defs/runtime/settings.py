"""Settings of a deployment (root, catalogue, device, executor) from environment variables, and the resources.

No setting is a field of run config: whoever may launch a run chooses what it builds, not where or with which code.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import dagster as dg

from genolewm_assets.defs.engines import make_k8s_executor, make_ray_executor
from genolewm_assets.defs.runtime.workspace import Workspace
from genolewm_assets.encoders import Compute
from genolewm_assets.errors import ConfigurationError

DEFAULT_ROOT = "data"
DEFAULT_CATALOG = "sample"


#: Dagster's own takes names of modules to import from run config.
_MULTIPROCESS = dg.multiprocess_executor.configured(
    lambda config: {**config, "start_method": {"spawn": {}}},
    config_schema={"max_concurrent": dg.Field(dg.Noneable(int), is_required=False)},
)


def configured_root() -> str:
    """Return ``GENOLEWM_ROOT``, by default ``data``."""
    return os.environ.get("GENOLEWM_ROOT", DEFAULT_ROOT)


def configured_catalog() -> str:
    """Return ``GENOLEWM_CATALOG``, by default ``sample``."""
    return os.environ.get("GENOLEWM_CATALOG", DEFAULT_CATALOG)


def configured_device() -> str:
    """Return ``GENOLEWM_DEVICE``, the torch device that computes states; ``auto`` (default): the best available one."""
    return os.environ.get("GENOLEWM_DEVICE", "auto")


def configured_compute() -> str | None:
    """Return ``GENOLEWM_COMPUTE``, a precision of the forward pass in place of the catalogue's; None if not set."""
    compute = os.environ.get("GENOLEWM_COMPUTE") or None
    if compute not in {None, *Compute}:
        raise ConfigurationError(
            "GENOLEWM_COMPUTE", "unknown precision", expected=" or ".join(Compute), got=repr(compute)
        )
    return compute


def configured_encoder() -> dict[str, Any]:
    """Return what replaces the catalogue's encoder, as arguments of :func:`replace_encoder`.

    ``compute`` is :func:`configured_compute`; ``GENOLEWM_WITHOUT_STATES=1`` turns the encoder off.

    Raises
    ------
    ConfigurationError
        If the precision is unknown, or ``GENOLEWM_WITHOUT_STATES`` is neither 0 nor 1.
    """
    without = os.environ.get("GENOLEWM_WITHOUT_STATES") or "0"
    if without not in {"0", "1"}:
        raise ConfigurationError(
            "GENOLEWM_WITHOUT_STATES", "neither yes nor no", expected="1, 0 or nothing", got=repr(without)
        )
    return {"compute": configured_compute(), "with_states": without == "0"}


def configured_batch() -> dict[str, Any]:
    """Return how an accelerator encodes windows, as arguments of ``CausalLMStateEncoder``; states do not depend on it.

    ``GENOLEWM_BATCH_WINDOWS`` is the largest number of windows per pass, ``GENOLEWM_COMPILER`` the backend of
    ``torch.compile`` for the element-wise work of layers, such as ``inductor``.

    Raises
    ------
    ConfigurationError
        If the number is none.
    """
    windows = os.environ.get("GENOLEWM_BATCH_WINDOWS") or None
    if windows is not None and not windows.isdecimal():
        raise ConfigurationError(
            "GENOLEWM_BATCH_WINDOWS", "not a number of windows", expected="at least 1", got=repr(windows)
        )
    batch_windows = None if windows is None else int(windows)
    return {"batch_windows": batch_windows, "compiler": os.environ.get("GENOLEWM_COMPILER") or None}


def configured_executor() -> dg.ExecutorDefinition:
    """Return the executor that ``GENOLEWM_EXECUTOR`` names, by default ``in_process``.

    One executor serves every asset, because Dagster has no executor per asset; op tags choose the node of a step.
    ``slurm`` executes steps as ``multiprocess`` does, and builds that need an H100 are jobs (``job_builds``).

    Raises
    ------
    ConfigurationError
        If the name is none of these, or the engine is not installed.
    """
    executors: dict[str, Callable[[], dg.ExecutorDefinition]] = {
        "in_process": lambda: dg.in_process_executor,
        "multiprocess": lambda: _MULTIPROCESS,
        "ray": make_ray_executor,
        "k8s": make_k8s_executor,
        "slurm": lambda: _MULTIPROCESS,
    }
    name = os.environ.get("GENOLEWM_EXECUTOR", "in_process")
    if name not in executors:
        raise ConfigurationError(
            "GENOLEWM_EXECUTOR", "unknown executor", expected=" or ".join(executors), got=repr(name)
        )
    return executors[name]()


def configured_source_url() -> str | None:
    """Return ``GENOLEWM_SOURCE_URL`` without its last ``/``: where the source code of this version is on the web."""
    url = os.environ.get("GENOLEWM_SOURCE_URL", "").rstrip("/")
    if url and not url.startswith(("https://", "http://")):
        raise ConfigurationError(
            "GENOLEWM_SOURCE_URL",
            "not a web address",
            expected="such as https://github.com/OWNER/NAME/blob/COMMIT",
            got=repr(url),
        )
    return url or None


@dataclass(frozen=True, slots=True)
class WorkspaceResource:
    """Root directory and catalogue of a deployment; assets take it as ``dg.ResourceParam[WorkspaceResource]``."""

    root: str
    catalog: str
    compute: str | None = None
    with_states: bool = True

    @classmethod
    def configured(cls) -> WorkspaceResource:
        """Return the root and catalogue that the environment names."""
        return cls(configured_root(), configured_catalog(), **configured_encoder())

    def open(self) -> Workspace:
        """Return the opened workspace; raises ``CatalogError`` or ``RootError`` as :meth:`Workspace.open`."""
        return Workspace.open(self.root, self.catalog, compute=self.compute, with_states=self.with_states)


class NoValues(dg.IOManager):
    """IO manager that keeps nothing, because assets write and read their files themselves."""

    def handle_output(self, context: dg.OutputContext, obj: object) -> None:
        """Take None, the value of every output."""
        if obj is not None:
            raise ConfigurationError(
                f"output {context.name!r}", "values are not kept", expected="None", got=type(obj).__name__
            )

    def load_input(self, context: dg.InputContext) -> None:
        """Return None, the value of every output."""


def configured_resources() -> dict[str, dg.ResourceDefinition]:
    """Return the resources of the code location; run config with a field for one of them is refused."""
    workspace = WorkspaceResource.configured()
    return {
        "workspace": dg.ResourceDefinition(
            lambda _: workspace,
            config_schema={},
            description="Root and catalogue of this deployment, from its settings.",
        ),
        "io_manager": dg.IOManagerDefinition(
            lambda _: NoValues(),
            config_schema={},
            description="Keeps no values: assets write and read their files themselves.",
        ),
    }
