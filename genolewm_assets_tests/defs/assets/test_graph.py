"""The asset graph as a whole: what it contains, what each asset states, and that nothing is inferred."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import dagster as dg

from genolewm_assets.definitions import defs
from genolewm_assets.defs.assets.graph import DECLARATIONS, GATED, platform_status
from genolewm_assets.defs.assets.packages.evaluation import SCORES_WITHIN_INTERVALS
from genolewm_assets.defs.operations.demo import STATE_ASSETS, Demo
from genolewm_assets.defs.runtime import automation
from genolewm_assets.defs.runtime.automation import SOURCES
from genolewm_assets.defs.runtime.currency import BUILT_FROM_CURRENT_INPUTS
from genolewm_assets.defs.runtime.release_age import NEWEST_RELEASE_BUILT
from genolewm_assets.encoders import PRECISION_SUFFICIENT
from genolewm_assets.package_build import WINDOWS_SUFFICE
from genolewm_assets.variants import CONTIGS_KNOWN
from genolewm_assets_tests.places import REPOSITORY
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.graph.built_world import BUILT
from genolewm_assets_tests.worlds.graph.tiny_world import RELEASES, TinyWorld

SPECS = sorted(defs.resolve_all_asset_specs(), key=lambda spec: spec.key.to_user_string())
PICTURED = {asset.key for asset in DECLARATIONS if asset.pictured}
GOLDEN = REPOSITORY / "genolewm_assets_tests" / "golden" / "asset_graph.json"
NAMES = ("AUTOMATED", "AUTOMATED_OF_EVERY_RELEASE", "REBUILT", "RECOMPUTED", "FOLLOWING")
CONDITIONS = {name: getattr(automation, name) for name in NAMES}


def describe_asset(spec: dg.AssetSpec) -> dict[str, object]:
    """Return all that an asset states of itself."""
    partitions, graph = spec.partitions_def, defs.resolve_asset_graph()
    asset = defs.resolve_assets_def(spec.key)
    schema = spec.metadata["dagster/column_schema"]
    deps = sorted(spec.deps, key=lambda dep: dep.asset_key.to_user_string())
    checks = sorted((key.name, key) for key in check_keys() if key.asset_key == spec.key)
    return {
        "description": spec.description,
        "deps": {dep.asset_key.to_user_string(): type(dep.partition_mapping).__name__ for dep in deps},
        "partitions": (
            partitions.name
            if isinstance(partitions, dg.DynamicPartitionsDefinition)
            else partitions and list(partitions.get_partition_keys())
        ),
        "checks": {name: graph.get_check_spec(key).description for name, key in checks},
        "group": spec.group_name,
        "code_version": spec.code_version,
        "owners": list(spec.owners),
        "tags": dict(sorted(spec.tags.items())),
        "automation": [name for name, condition in CONDITIONS.items() if condition == spec.automation_condition],
        "op": asset.node_def.name,
        "op_tags": dict(asset.node_def.tags),
        "pools": sorted(asset.node_def.pools),
        "hooks": sorted(hook.name for hook in asset.hook_defs),
        "metadata": sorted(spec.metadata),
        "columns": {
            column.name: f"{column.type}{' or null' * column.constraints.nullable}: {column.description}"
            for column in schema.columns
        },
    }


def check_keys() -> list[dg.AssetCheckKey]:
    return list(defs.resolve_asset_graph().asset_check_keys)


def test_graph_is_the_golden_one() -> None:
    graph = {spec.key.to_user_string(): describe_asset(spec) for spec in SPECS}
    if os.environ.get("GENOLEWM_WRITE_GOLDEN"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(json.dumps(graph, indent=2) + "\n")
    assert graph == json.loads(GOLDEN.read_text())


def test_the_demo_walks_every_partition_after_what_it_reads(world: TinyWorld) -> None:
    steps = [(asset.key, partition) for asset, partition in Demo(defs, world.workspace(), world.instance).steps()]
    # The pointer follows when all is there, and this world has no run folder.
    walked = [page for page in BUILT if page[0] not in {"packages/current", "forensic/profiles"}]
    assert sorted(steps, key=str) == sorted(walked, key=str)
    last = {key: place for place, (key, _) in enumerate(steps)}
    for place, (key, _) in enumerate(steps):
        read = {dep.asset_key.to_user_string() for dep in GATED[key].deps} & last.keys()
        assert all(last[each] < place for each in read), key
    assert [partition for key, partition in steps if key == "clinvar/shard"] == list(RELEASES)


def test_states_are_made_from_the_genome_and_both_kinds_of_windows() -> None:
    windows, states = ("windows/index", "corpus/records", "corpus/windows"), ("embeddings/cache", "embeddings/corpus")
    assert {"reference/genome", *windows, *states} == STATE_ASSETS


def test_conditions_know_every_source_outside_the_root() -> None:
    graph = defs.resolve_asset_graph()
    assert SOURCES.resolve(graph) == graph.observable_asset_keys


@each_row("spec", SPECS)
def test_asset_states_what_people_need(spec: dg.AssetSpec) -> None:
    key = spec.key.to_user_string()
    said, _, entries = str(spec.description).partition("\n\nMetadata:\n\n")
    first, *more = said.split("\n\n")
    assert re.match(r"One row per [a-z]", first, re.IGNORECASE)
    # The UI hides what is below 260 pixels, and a picture has up to 190.
    address = f"/genolewm/pictures/{key}"
    picture = f"[![The first picture of the latest materialisation]({address})]({address}?size=full)"
    assert (more[0] == picture) is (key in PICTURED)
    texts = [first, *more[key in PICTURED :]]
    assert len(texts) > 1, "what it is, and why it exists"
    assert all(each.endswith(".") and "[![" not in each for each in texts)
    assert all(re.match("- `[^`]+`.*: [^ ]", line) for line in entries.splitlines())
    assert spec.owners == ["team:genolewm"]
    assert spec.group_name == spec.key.path[0]
    assert spec.code_version
    assert spec.freshness_policy is None, "it goes by the time of a build"
    assert 0 < len(spec.kinds) <= 3
    assert ("h100" in spec.kinds) is (spec.tags.get("genolewm/accelerator") == "h100")
    for dep in spec.deps:
        assert dep.partition_mapping is not None, f"the mapping to {dep.asset_key} is inferred"
    columns = spec.metadata["dagster/column_schema"].columns
    assert len({column.name for column in columns}) == len(columns) > 0
    assert all(column.type and column.description for column in columns)
    # The UI would show it as the storage of the asset, in place of the files.
    assert not {"dagster/table_name", "dagster/uri"} & spec.metadata.keys()


def test_every_check_of_contents_blocks_and_is_partitioned_like_its_asset() -> None:
    graph = defs.resolve_asset_graph()
    assert check_keys()
    # A build that fails `precision_sufficient` is not published; caches of before have no result to wait for.
    advisory = {BUILT_FROM_CURRENT_INPUTS, NEWEST_RELEASE_BUILT, PRECISION_SUFFICIENT, CONTIGS_KNOWN, WINDOWS_SUFFICE}
    advisory.add(SCORES_WITHIN_INTERVALS)
    for key in check_keys():
        spec = graph.get_check_spec(key)
        assert spec.blocking is (key.name not in advisory)
        if key.name != NEWEST_RELEASE_BUILT:
            assert spec.partitions_def == graph.get(key.asset_key).partitions_def


def test_nothing_reads_the_status_and_no_build_includes_it() -> None:
    key, graph = dg.AssetKey(platform_status.path), defs.resolve_asset_graph()
    node = graph.get(key)
    assert not node.parent_keys | node.child_keys | node.check_keys
    assert node.partitions_def is None
    assert node.automation_condition is None
    jobs = [job.name for job in defs.resolve_all_job_defs() if key in job.asset_layer.executable_asset_keys]
    assert [name for name in jobs if not name.startswith("__")] == ["report_status"]


def test_definitions_load_light() -> None:
    heavy = {"aiohttp", "pandas", "torch", "transformers", "matplotlib", "ray", "dagster_ray", "dagster_k8s"}
    assert imported_by("genolewm_assets.definitions", {*heavy, "kubernetes", "huggingface_hub"}) == "set()"


def test_core_imports_no_dagster() -> None:
    core = "genolewm_assets.genome, genolewm_assets.store, genolewm_assets.windows.reference.table"
    assert imported_by(core, {"dagster", "pysam"}) == "set()"


def imported_by(modules: str, unwanted: set[str]) -> str:
    """Return which of some packages a fresh process has imported besides what it was asked to."""
    code = f"import sys, {modules}; print({unwanted} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()
