"""Op tags that choose the node of a step, and the pool of steps that need an H100; no other module names such nodes.

Dagster has no executor per asset, so a step carries tags that the configured executor reads (Ray: resources;
Kubernetes: selector, toleration, limit). The tags belong to the op, because tags of a job do not reach the steps of a
backfill. Configure executors without resources of their own, which would override these.
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

#: Tags of a step that needs no accelerator. Ops that request runs or wait for them have none, and Ray executes such a
#: step on its head: one that waits would keep a CPU from those that it waits for.
CPU_OP_TAGS: Mapping[str, Any] = {"dagster-ray/config": {"num_cpus": 1, "resources": {CPU_RESOURCE: _MARK}}}

_VARIABLE, _DEFAULT_PRODUCT = "GENOLEWM_GPU_PRODUCT", "NVIDIA-H100-80GB-HBM3"


def gpu_product() -> str:
    """Return ``GENOLEWM_GPU_PRODUCT``, the node label ``nvidia.com/gpu.product`` of the nodes that compute states.

    By default ``NVIDIA-H100-80GB-HBM3``; others are ``NVIDIA-H100-PCIe``, ``NVIDIA-H100-NVL`` and ``NVIDIA-H200``.

    Raises
    ------
    ConfigurationError
        If it is not the name of an NVIDIA product with hyphens in place of spaces.
    """
    product = os.environ.get(_VARIABLE) or _DEFAULT_PRODUCT
    if not re.fullmatch(r"NVIDIA-[A-Z0-9]+(-[\w.-]*\w)?", product):
        raise ConfigurationError(
            _VARIABLE, "not the label of a GPU node", expected=f"such as {_DEFAULT_PRODUCT}", got=repr(product)
        )
    return product


def card_type() -> str:
    """Return the name of the card of :func:`gpu_product` without its variant: ``H100``."""
    return gpu_product().split("-")[1]


def accelerator_resource() -> str:
    """Return the resource that Ray gives to nodes with the card of :func:`gpu_product`: ``accelerator_type:H100``."""
    return f"accelerator_type:{card_type()}"


def h100_op_tags() -> Mapping[str, Any]:
    """Return the tags of a step that needs an H100; raises as :func:`gpu_product`."""
    return {
        "dagster-ray/config": {"num_cpus": 1, "num_gpus": 1, "resources": {accelerator_resource(): _MARK}},
        "dagster-k8s/config": {
            # A deep merge would add the launcher's own node selector to this one and leave the pod pending for ever.
            "merge_behavior": "SHALLOW",
            "container_config": {
                "resources": {
                    "requests": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"},
                    "limits": {"memory": "64Gi", "nvidia.com/gpu": "1"},
                }
            },
            "pod_template_spec_metadata": {"labels": {"genolewm/accelerator": "h100"}},
            "pod_spec_config": {
                "node_selector": {"nvidia.com/gpu.product": gpu_product()},
                "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
            },
            # The executor waits for a pending pod without limit.
            "job_spec_config": {"active_deadline_seconds": 14_400},
        },
    }
