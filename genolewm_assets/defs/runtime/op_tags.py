"""Tags and pool of steps that need an H100; no other module names H100 nodes.

Dagster has no executor per asset, so a step that needs the accelerator carries tags that the configured executor reads
(Ray: resources; Kubernetes: selector, toleration, limit). The tags belong to the asset, because tags of a job do not
reach the steps of a backfill. Configure executors without resources of their own, which would override these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Pool that limits how many of these steps run at once.
H100_POOL = "h100"

#: Asset tag to select these assets by: ``tag:"genolewm/accelerator"="h100"``.
H100_ASSET_TAGS: Mapping[str, str] = {"genolewm/accelerator": "h100"}

H100_OP_TAGS: Mapping[str, Any] = {
    "dagster-ray/config": {"num_cpus": 1, "num_gpus": 1, "resources": {"accelerator_type:H100": 0.001}},
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
            "node_selector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        },
        # The executor waits for a pending pod without limit.
        "job_spec_config": {"active_deadline_seconds": 14_400},
    },
}
