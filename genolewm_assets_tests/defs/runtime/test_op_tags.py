"""Steps that need an H100 say so in every language an executor reads, and no other step does."""

from __future__ import annotations

import dagster as dg
import pytest

from genolewm_assets.definitions import defs
from genolewm_assets.defs.runtime.op_tags import H100_ASSET_TAGS, H100_POOL

ASSETS = sorted(defs.resolve_asset_graph().assets_defs, key=lambda asset: asset.key.to_user_string())


@pytest.mark.parametrize("asset", ASSETS, ids=lambda asset: asset.key.to_user_string())
def test_tag_pool_and_engine_configuration_go_together(asset: dg.AssetsDefinition) -> None:
    needs_h100 = asset.key.path[0] in {"embeddings", "tuples"}
    spec = asset.get_asset_spec(asset.key)
    assert (H100_ASSET_TAGS.items() <= spec.tags.items()) is needs_h100
    assert asset.op.pool == (H100_POOL if needs_h100 else None)
    tags = asset.op.tags
    assert ("dagster-ray/config" in tags, "dagster-k8s/config" in tags) == (needs_h100, needs_h100)


def test_kubernetes_tags_ask_for_one_gpu_on_an_h100_node_and_give_up_in_the_end() -> None:
    from genolewm_assets.defs.runtime.op_tags import H100_OP_TAGS

    config = H100_OP_TAGS["dagster-k8s/config"]
    assert config["merge_behavior"] == "SHALLOW"
    assert config["container_config"]["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert "H100" in config["pod_spec_config"]["node_selector"]["nvidia.com/gpu.product"]
    assert config["pod_spec_config"]["tolerations"]
    assert config["job_spec_config"]["active_deadline_seconds"] > 0
