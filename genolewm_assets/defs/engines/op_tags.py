"""Op tags that choose the node of a step, and the pool of steps that need an H100; no other module names such nodes.

The tags belong to the op, because tags of a job do not reach the steps of a backfill. Configure executors without
resources of their own, which would override these.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from genolewm_assets.errors import ConfigurationError

#: Pool that limits how many of these steps run at once.
H100_POOL = "h100"

#: Asset tag to select these assets by: ``tag:"genolewm/accelerator"="h100"``.
H100_ASSET_TAGS: Mapping[str, str] = {"genolewm/accelerator": "h100"}

#: Ray resource that only nodes for CPU steps declare (``ray start --resources``), 1 each. Ray would place a step that
#: asks for CPUs alone on any node, an H100 node included.
CPU_RESOURCE = "genolewm_cpu"

#: A step takes this much of a resource that marks nodes, so that a node has room for 1,000.
_MARK = 0.001

_PRODUCT, _DEFAULT_PRODUCT = "GENOLEWM_GPU_PRODUCT", "NVIDIA-H100-80GB-HBM3"

#: What a pod asks for, by kind of step; the memory is its limit too.
_PODS: Mapping[str, str] = {"GENOLEWM_CPU_POD": "cpu=2,memory=16Gi", "GENOLEWM_H100_POD": "cpu=8,memory=64Gi"}

_DEADLINE, _DEFAULT_DEADLINE_S = "GENOLEWM_STEP_DEADLINE_S", 172_800

#: Labels that NVIDIA's GPU operator puts on every node with a GPU.
_PRODUCT_LABEL, _GPU_LABELS = "nvidia.com/gpu.product", ("nvidia.com/gpu.present", "nvidia.com/gpu.product")

#: Affinity of pods that need no GPU. GPU nodes are not tainted on every cluster.
WITHOUT_GPU: Mapping[str, Any] = {
    "node_affinity": {
        "required_during_scheduling_ignored_during_execution": {
            "node_selector_terms": [
                {"match_expressions": [{"key": label, "operator": "DoesNotExist"} for label in _GPU_LABELS]}
            ]
        }
    }
}


def gpu_product() -> str:
    """Return ``GENOLEWM_GPU_PRODUCT``, the node label ``nvidia.com/gpu.product`` of the nodes that compute states."""
    product = os.environ.get(_PRODUCT) or _DEFAULT_PRODUCT
    if not re.fullmatch(r"NVIDIA-[A-Z0-9]+(-[\w.-]*\w)?", product):
        raise ConfigurationError(
            _PRODUCT, "not the label of a GPU node", expected=f"such as {_DEFAULT_PRODUCT}", got=repr(product)
        )
    return product


def card_type() -> str:
    """Return the name of the card of :func:`gpu_product` without its variant: ``H100``."""
    return gpu_product().split("-")[1]


def accelerator_resource() -> str:
    """Return the resource that Ray gives to nodes with the card of :func:`gpu_product`: ``accelerator_type:H100``."""
    return f"accelerator_type:{card_type()}"


def cpu_op_tags() -> Mapping[str, Any]:
    """Return the tags of a step that needs no accelerator.

    Ops that request runs or wait for them have none. Ray executes such a step on its head, and Kubernetes in a pod as
    small as that of a run: one that waits would keep CPUs from those that it waits for.

    Raises
    ------
    ConfigurationError
        If a setting of pods cannot be read.
    """
    return {
        "dagster-ray/config": {"num_cpus": 1, "resources": {CPU_RESOURCE: _MARK}},
        "dagster-k8s/config": _pod_config("GENOLEWM_CPU_POD", {}, {"affinity": WITHOUT_GPU}),
    }


def h100_op_tags() -> Mapping[str, Any]:
    """Return the tags of a step that needs an H100; raises as :func:`cpu_op_tags` and :func:`gpu_product`."""
    on_card = {
        "node_selector": {_PRODUCT_LABEL: gpu_product()},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        # In place of the affinity of runs, which keeps these off GPU nodes.
        "affinity": {},
    }
    return {
        "dagster-ray/config": {"num_cpus": 1, "num_gpus": 1, "resources": {accelerator_resource(): _MARK}},
        "dagster-k8s/config": _pod_config("GENOLEWM_H100_POD", {"nvidia.com/gpu": "1"}, on_card),
    }


def _pod_config(variable: str, devices: Mapping[str, str], placed: Mapping[str, Any]) -> dict[str, Any]:
    asked = _asked_for(variable)
    return {
        # Replaces resources, selector, tolerations and affinity of the launcher, and no other key: volumes, environment
        # and security contexts stay. A deep merge would demand both node selectors, and would let a pod choose between
        # two affinities.
        "merge_behavior": "SHALLOW",
        "container_config": {
            "resources": {"requests": {**asked, **devices}, "limits": {"memory": asked["memory"], **devices}}
        },
        "pod_spec_config": placed,
        # The executor waits for a pending pod without limit. The time counts from the request on, waiting included.
        "job_spec_config": {"active_deadline_seconds": _step_deadline_s()},
    }


def _asked_for(variable: str) -> dict[str, str]:
    text = os.environ.get(variable) or _PODS[variable]
    found = re.fullmatch(r"cpu=([1-9]\d*m?),memory=([1-9]\d*[MGT]i)", text)
    if found is None:
        raise ConfigurationError(variable, "not what a pod asks for", expected=_PODS[variable], got=repr(text))
    return {"cpu": found[1], "memory": found[2]}


def _step_deadline_s() -> int:
    text = os.environ.get(_DEADLINE) or str(_DEFAULT_DEADLINE_S)
    if not re.fullmatch(r"[1-9]\d{0,8}", text):
        raise ConfigurationError(_DEADLINE, "not a number of seconds", expected="at least 1", got=repr(text))
    return int(text)
