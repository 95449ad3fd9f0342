"""``packages/evaluation``: off unless the catalogue asks, refused without states; scores that move are a warning."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from genolewm_assets import evaluation
from genolewm_assets.defs.assets.graph import ASSETS
from genolewm_assets.defs.assets.packages.evaluation import SCORES_WITHIN_INTERVALS, packages_evaluation
from genolewm_assets.defs.display import first_picture
from genolewm_assets.defs.runtime.partitions import BY_EVALUATED_RELEASE, BY_PACKAGED_RELEASE
from genolewm_assets.errors import GenoLeWMError
from genolewm_assets.evaluation.table import EVALUATION
from genolewm_assets.sources.catalog import load_catalog
from genolewm_assets.store.artefacts.verify import verify_root
from genolewm_assets_tests.worlds.graph.built_world import BuiltWorld
from genolewm_assets_tests.worlds.graph.tiny_world import RELEASES, check_of, refusal_of, shown_of

FIRST, SECOND = RELEASES
#: The asset as a catalogue declares it that asks for it; that of the tests' definitions does not.
DECLARED = replace(packages_evaluation, partitions=BY_PACKAGED_RELEASE)


@pytest.fixture
def world(copied: BuiltWorld) -> BuiltWorld:
    copied.edit_catalog(packages={"evaluation": {"tuples": 100}})
    return copied


def materialize(world: BuiltWorld, release: str) -> dg.ExecuteInProcessResult:
    others = [asset for asset in ASSETS if asset.key != dg.AssetKey(DECLARED.path)]
    return world.materialize(DECLARED.key, partition=release, assets=[*others, DECLARED.definition()])


def scores(auroc: float) -> pa.Table:
    """Return a table in which a probe has a score with an interval of 0.1 on both sides."""
    row: dict[str, Any] = {"holdout": "holdout-chr", "tuples": "alleles", "n_tuples": 9, "latent_error": 0.9}
    row |= {"n_harmful": 4, "n_benign": 5, "n_genes": 3, "score": "readout", "auroc": auroc}
    row |= {"auroc_low": auroc - 0.1, "auroc_high": auroc + 0.1, "auroc_of_size": 0.5, "gain": 0.0}
    rows = [row | {"model": model} for model in ("linear", "residual")]
    return pa.Table.from_pylist(rows, schema=EVALUATION.arrow)


def test_the_asset_is_in_the_graph_without_partitions_unless_the_catalogue_asks(world: BuiltWorld) -> None:
    assert packages_evaluation.partitions is BY_EVALUATED_RELEASE
    assert packages_evaluation.partitions.keys(None) == []
    world.edit_catalog(packages={"evaluation": None})
    said = refusal_of(materialize(world, SECOND))
    assert "catalog.yaml (packages.evaluation): no evaluation is asked for: expected {tuples: 4096}" in said
    world.edit_catalog(packages={"evaluation": {"tuples": 100}}, encoder="off")  # type: ignore[arg-type]
    with pytest.raises(GenoLeWMError, match=r"packages.evaluation\): an evaluation needs states"):
        load_catalog(str(world.catalog))


def test_a_score_that_leaves_its_interval_is_a_warning(world: BuiltWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    def evaluate_as(release: str, auroc: float) -> dg.ExecuteInProcessResult:
        monkeypatch.setattr(evaluation, "evaluate", lambda *_, **__: scores(auroc))
        result = materialize(world, release)
        assert result.success
        return result

    alone = check_of(evaluate_as(FIRST, 0.7), SCORES_WITHIN_INTERVALS)
    assert (alone.passed, alone.metadata["compared"].value) == (True, 0)
    result = evaluate_as(SECOND, 0.85)
    moved = check_of(result, SCORES_WITHIN_INTERVALS)
    assert (moved.passed, moved.blocking, moved.severity) == (False, False, dg.AssetCheckSeverity.WARN)
    assert "holdout-chr" in str(moved.metadata)
    assert FIRST in str(moved.metadata)
    # Its page: every entry has a meaning, and the picture names both releases.
    shown = shown_of(result, DECLARED.key).metadata
    assert shown["auroc_chr"].value == 0.85
    assert "2 releases; 2025-01-05: holdout-chr linear 0.850" in shown["scores_by_release"].value
    assert first_picture(shown) is not None
    assert verify_root(world.workspace().root) == []
    # Kept as it is, but not if the catalogue asks for other tuples; then the score is within.
    assert shown_of(materialize(world, SECOND), DECLARED.key).metadata["reused"].value is True
    world.edit_catalog(packages={"evaluation": {"tuples": 200}})
    assert DECLARED.currency(world.workspace(), SECOND).reasons == ("recipe tuples: built from 100, now 200",)
    assert check_of(evaluate_as(SECOND, 0.75), SCORES_WITHIN_INTERVALS).passed


@pytest.mark.nightly
def test_the_asset_publishes_what_the_function_returns(world: BuiltWorld) -> None:
    assert materialize(world, SECOND).success
    published = DECLARED.open(world.workspace(), SECOND)
    inputs = {(each.asset, each.partition) for each in published.manifest.inputs}
    assert {("packages/split", SECOND), ("embeddings/cache", "chr21")} <= inputs
    first = published.file("evaluation.parquet").read_bytes()
    for folder in (published.directory.parents[1] / ".gen", published.directory.parents[1]):
        for each in folder.glob(f"{SECOND}*"):
            each.unlink() if each.is_symlink() else each.rename(world.folder / each.name)
    assert materialize(world, SECOND).success
    assert DECLARED.open(world.workspace(), SECOND).file("evaluation.parquet").read_bytes() == first


#: Prints what the definitions of a catalogue that asks for an evaluation hold.
DEFINED = """
import json, sys
import dagster as dg
from genolewm_assets.definitions import defs
from genolewm_assets.defs.assets import GATED
from genolewm_assets.defs.operations.release_job import RELEASE_ASSETS
from genolewm_assets.defs.runtime import BY_PACKAGED_RELEASE
node = defs.resolve_asset_graph().get(dg.AssetKey(["packages", "evaluation"]))
print(json.dumps({
    "same": GATED["packages/evaluation"].partitions is BY_PACKAGED_RELEASE, "torch": "torch" in sys.modules,
    "in_release_job": "packages/evaluation" in RELEASE_ASSETS, "partitions": node.partitions_def.name,
    "tags": dict(node.tags),
}))
"""


def test_a_catalogue_that_asks_has_a_partition_for_each_packaged_release(world: BuiltWorld) -> None:
    environment = {**os.environ, "GENOLEWM_CATALOG": str(world.catalog), "GENOLEWM_ROOT": str(world.root)}
    found = json.loads(subprocess.check_output([sys.executable, "-c", DEFINED], env=environment))
    tags = found.pop("tags")
    assert found == {"same": True, "torch": False, "in_release_job": False, "partitions": "clinvar_release"}
    assert tags["genolewm/accelerator"] == "h100"
