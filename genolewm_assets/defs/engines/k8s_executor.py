"""Executor that runs each step as a Kubernetes Job, through ``dagster-k8s``.

What a step needs is in its op tags (``op_tags``); all else is of the run launcher in ``dagster.yaml`` and of the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg

from genolewm_assets.defs.engines.forwarded import forwarded_settings
from genolewm_assets.errors import ConfigurationError

if TYPE_CHECKING:
    from dagster._core.executor.base import Executor

#: A step that waits for runs may take as long as a run (``max_runtime_seconds``); others have a deadline in their tags.
_LONGEST_RUN_S = 604_800

#: Between two looks at the Jobs of a run; Dagster's own are 20 s apart.
_LOOK_S = 5


def make_k8s_executor() -> dg.ExecutorDefinition:
    """Return the executor; run config can set none of its options.

    The settings are read when a run starts.

    Raises
    ------
    ConfigurationError
        If ``dagster-k8s`` is not installed.
    """
    try:
        from dagster_k8s import k8s_job_executor
    except ImportError as err:
        raise ConfigurationError(
            "GENOLEWM_EXECUTOR",
            "the executor 'k8s' is not installed",
            remedy="Install the extra in the image: pip install 'genolewm-assets[deploy]'",
        ) from err
    executor = dg.ExecutorDefinition(
        name="k8s",
        config_schema=k8s_job_executor.config_schema,
        requirements=dg.multiple_process_executor_requirements(),
        executor_creation_fn=_watching_executor,
    )
    configured: dg.ExecutorDefinition = executor.configured(executor_config, config_schema={})
    return configured


def executor_config(_: object) -> dict[str, Any]:
    """Return the configuration of ``dagster_k8s.k8s_job_executor``: forwarded settings, no resources."""
    return {
        "env_vars": forwarded_settings(),
        "enable_owner_references": True,
        "step_k8s_config": {
            # Steps ask Kubernetes for nothing.
            "pod_spec_config": {"automount_service_account_token": False},
            "job_spec_config": {"active_deadline_seconds": _LONGEST_RUN_S},
        },
    }


def _watching_executor(context: dg.InitExecutorContext) -> Executor:
    """Return Dagster's executor with a step handler that also says why pods wait and fail."""
    from dagster_k8s import K8sRunLauncher, k8s_job_executor

    from genolewm_assets.defs.engines.pod_watch import PodWatch

    launcher = context.instance.run_launcher
    if not isinstance(launcher, K8sRunLauncher):
        raise ConfigurationError(
            "GENOLEWM_EXECUTOR",
            "the executor 'k8s' needs runs on Kubernetes",
            expected="run_launcher K8sRunLauncher in dagster.yaml",
            got=type(launcher).__name__,
            remedy="Take deploy/kubernetes/dagster.yaml",
        )
    executor: Any = k8s_job_executor.executor_creation_fn(context)
    executor._step_handler = PodWatch(executor._step_handler)
    executor._check_step_health_interval_seconds = _LOOK_S
    return executor  # type: ignore[no-any-return]
