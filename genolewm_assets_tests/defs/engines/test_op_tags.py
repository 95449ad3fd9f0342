"""Every step says where it may run, in every language an executor reads; states need an H100, and nothing else does."""

from __future__ import annotations

import json

import dagster as dg
import pytest
from dagster_k8s.job import get_user_defined_k8s_config

from genolewm_assets.definitions import defs
from genolewm_assets.defs.engines.op_tags import (
    CPU_RESOURCE,
    H100_ASSET_TAGS,
    H100_POOL,
    accelerator_resource,
    cpu_op_tags,
    gpu_product,
    h100_op_tags,
)
from genolewm_assets.errors import ConfigurationError
from genolewm_assets_tests.servers.programs import needs_extra

ASSETS = sorted(defs.resolve_asset_graph().assets_defs, key=lambda asset: asset.key.to_user_string())

#: What the names of ops that need an H100 begin with.
ON_GPU = ("embeddings__", "tuples__", "packages__evaluation")
#: Ops without tags: they request runs, wait for them or ask servers about files. Ray executes them on its head, and
#: Kubernetes in pods like those of runs.
ON_THE_HEAD = {"build_stages", "request_backfill", "delete_superseded_runs"}


@pytest.mark.parametrize("asset", ASSETS, ids=lambda asset: asset.key.to_user_string())
def test_tag_pool_and_engine_configuration_go_together(asset: dg.AssetsDefinition) -> None:
    needs_h100 = asset.op.name.startswith(ON_GPU) and asset.is_materializable
    spec = asset.get_asset_spec(asset.key)
    assert (H100_ASSET_TAGS.items() <= spec.tags.items()) is needs_h100
    assert asset.op.pool == (H100_POOL if needs_h100 else None)
    if asset.is_executable and not asset.is_observable:
        # Misspelt keys raise here, and otherwise not before a step is launched.
        config = get_user_defined_k8s_config(asset.op.tags)
        assert ("nvidia.com/gpu" in config.container_config["resources"]["limits"]) is needs_h100


def test_every_op_of_every_job_is_placed() -> None:
    observed = {asset.op.name for asset in ASSETS if asset.is_observable}
    nodes = [node for job in defs.get_repository_def().get_all_jobs() for node in job.nodes]
    ops = {node.definition.name: node.definition for node in nodes}
    assert observed | ON_THE_HEAD <= ops.keys()
    for name, op in ops.items():
        placed = {
            key: json.loads(text) for key, text in op.tags.items() if key.startswith(("dagster-ray/", "dagster-k8s/"))
        }
        on_gpu = name.startswith(ON_GPU)
        assert placed == ({} if name in observed | ON_THE_HEAD else h100_op_tags() if on_gpu else cpu_op_tags()), name


def test_no_node_fits_both_kinds_of_steps() -> None:
    cpu, gpu = cpu_op_tags()["dagster-ray/config"], h100_op_tags()["dagster-ray/config"]
    assert (set(cpu["resources"]), cpu.get("num_gpus")) == ({CPU_RESOURCE}, None)
    assert (set(gpu["resources"]), gpu["num_gpus"]) == ({"accelerator_type:H100"}, 1)


@pytest.mark.parametrize(
    ("product", "card"),
    [
        *((product, "H100") for product in (None, "", "NVIDIA-H100-PCIe", "NVIDIA-H100-NVL")),
        *(("NVIDIA-H200", "H200"), ("NVIDIA-A100-SXM4-80GB", "A100")),
    ],
)
def test_the_nodes_label_is_a_setting(product: str | None, card: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GENOLEWM_GPU_PRODUCT", raising=False)
    if product is not None:
        monkeypatch.setenv("GENOLEWM_GPU_PRODUCT", product)
    tags = h100_op_tags()
    assert {accelerator_resource()} == set(tags["dagster-ray/config"]["resources"]) == {f"accelerator_type:{card}"}
    selector = tags["dagster-k8s/config"]["pod_spec_config"]["node_selector"]
    assert selector == {"nvidia.com/gpu.product": product or "NVIDIA-H100-80GB-HBM3"}


@pytest.mark.parametrize("product", ["H100", "NVIDIA H100 PCIe", "NVIDIA-", "NVIDIA-H100-", "NVIDIA-H100,NVIDIA-H200"])
def test_another_label_is_refused(product: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENOLEWM_GPU_PRODUCT", product)
    with pytest.raises(ConfigurationError, match="GENOLEWM_GPU_PRODUCT: not the label of a GPU node"):
        gpu_product()


def test_ray_names_the_resource_as_we_do() -> None:
    manager = needs_extra("ray", "ray._private.accelerators").NvidiaGPUAcceleratorManager
    for product in ("NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-PCIe", "NVIDIA-H200"):
        # The label has hyphens in place of the spaces of the driver's name.
        found = manager._gpu_name_to_accelerator_type(product.replace("-", " "))
        assert product.split("-")[1] == found


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("GENOLEWM_CPU_POD", "2,16Gi", "not what a pod asks for"),
        ("GENOLEWM_CPU_POD", "cpu=0,memory=16Gi", "not what a pod asks for"),
        ("GENOLEWM_H100_POD", "cpu=8,memory=64GB", "not what a pod asks for"),
        ("GENOLEWM_STEP_DEADLINE_S", "0", "not a number of seconds"),
        ("GENOLEWM_STEP_DEADLINE_S", "2d", "not a number of seconds"),
    ],
)
def test_a_setting_of_pods_that_cannot_be_read_is_refused(
    name: str, value: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=f"{name}: {problem}"):
        [cpu_op_tags(), h100_op_tags()]


def test_what_pods_ask_for_and_their_deadline_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENOLEWM_CPU_POD", "cpu=500m,memory=2Gi")
    monkeypatch.setenv("GENOLEWM_H100_POD", "cpu=12,memory=96Gi")
    monkeypatch.setenv("GENOLEWM_STEP_DEADLINE_S", "3600")
    cpu, gpu = cpu_op_tags()["dagster-k8s/config"], h100_op_tags()["dagster-k8s/config"]
    of_cpu, of_gpu = {"memory": "2Gi"}, {"memory": "96Gi", "nvidia.com/gpu": "1"}
    assert cpu["container_config"]["resources"] == {"requests": {"cpu": "500m", **of_cpu}, "limits": of_cpu}
    assert gpu["container_config"]["resources"] == {"requests": {"cpu": "12", **of_gpu}, "limits": of_gpu}
    assert {config["job_spec_config"]["active_deadline_seconds"] for config in (cpu, gpu)} == {3_600}
