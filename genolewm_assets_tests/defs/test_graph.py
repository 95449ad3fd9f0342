"""The asset graph as a whole: what it contains, what each asset states, and that nothing is inferred."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from genolewm_assets.definitions import defs

SPECS = sorted(defs.resolve_all_asset_specs(), key=lambda spec: spec.key.to_user_string())
GOLDEN = Path(__file__).parents[1] / "golden" / "asset_graph.json"


def describe_graph() -> dict[str, object]:
    """Return keys, dependencies with their mappings, partitions and checks of every asset."""
    graph: dict[str, object] = {}
    for spec in SPECS:
        partitions = spec.partitions_def
        graph[spec.key.to_user_string()] = {
            "deps": {
                dep.asset_key.to_user_string(): type(dep.partition_mapping).__name__
                for dep in sorted(spec.deps, key=lambda dep: dep.asset_key.to_user_string())
            },
            "partitions": (
                partitions.name
                if isinstance(partitions, dg.DynamicPartitionsDefinition)
                else partitions and list(partitions.get_partition_keys())
            ),
            "checks": sorted(key.name for key in check_keys() if key.asset_key == spec.key),
        }
    return graph


def check_keys() -> list[dg.AssetCheckKey]:
    return list(defs.resolve_asset_graph().asset_check_keys)


def test_graph_is_the_golden_one() -> None:
    graph = describe_graph()
    if os.environ.get("GENOLEWM_WRITE_GOLDEN"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(json.dumps(graph, indent=2) + "\n")
    assert graph == json.loads(GOLDEN.read_text())


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.key.to_user_string())
def test_asset_states_what_people_need(spec: dg.AssetSpec) -> None:
    assert spec.description is not None
    assert spec.description.startswith("One row per ")
    assert spec.owners
    assert spec.group_name == spec.key.path[0]
    assert spec.code_version
    assert 0 < len(spec.kinds) <= 3
    for dep in spec.deps:
        assert dep.partition_mapping is not None, f"the mapping to {dep.asset_key} is inferred"
    if spec.key != dg.AssetKey(["clinvar", "release"]):
        assert "dagster/column_schema" in spec.metadata


def test_every_check_blocks_and_is_partitioned_like_its_asset() -> None:
    graph = defs.resolve_asset_graph()
    assert check_keys()
    for key in check_keys():
        spec = graph.get_check_spec(key)
        assert spec.blocking
        assert spec.partitions_def == graph.get(key.asset_key).partitions_def


@pytest.mark.slow
def test_definitions_load_light() -> None:
    code = (
        "import sys, genolewm_assets.definitions as d; "
        "heavy = {'torch', 'transformers', 'matplotlib', 'ray'} & set(sys.modules); "
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_core_imports_no_dagster() -> None:
    modules = "genolewm_assets.genome, genolewm_assets.store, genolewm_assets.lewm.window_index"
    code = f"import sys, {modules}; sys.exit(bool({{'dagster', 'pysam'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
