"""``check_current`` and ``genolewm status --partitions``: what they say of each partition; they shut no gate."""

from __future__ import annotations

import json
from pathlib import Path

import dagster as dg
import pytest

from genolewm_assets.defs.assets.graph import PUBLISHING
from genolewm_assets.defs.runtime.currency import BUILT_FROM_CURRENT_INPUTS, survey_root
from genolewm_assets_tests.defs.conftest import CommandLine, copied
from genolewm_assets_tests.worlds.graph.built_world import BUILT, Automation, BuiltWorld
from genolewm_assets_tests.worlds.graph.tiny_world import CONTIGS, RELEASES

Subject = tuple[str, str | None]

world = copied


def evaluate(world: BuiltWorld) -> dict[Subject, dg.AssetCheckEvaluation]:
    """Run the job, and return what it says of each partition."""
    result = world.run_job("check_current")
    assert result.success
    found = [each for each in result.get_asset_check_evaluations() if each.check_name == BUILT_FROM_CURRENT_INPUTS]
    return {(each.asset_key.to_user_string(), each.partition): each for each in found}


def test_all_is_current_right_after_the_builds(world: BuiltWorld) -> None:
    found = evaluate(world)
    assert set(found) == set(BUILT)
    # The catalogue asks for no frozen epoch and no evaluation.
    assert {key for key, _ in found} == set(PUBLISHING) - {"tuples/frozen", "packages/evaluation"}
    assert all(each.passed for each in found.values())


@pytest.mark.nightly
def test_a_changed_parameter_is_a_warning_and_shuts_no_gate(world: BuiltWorld) -> None:
    automation = Automation(world)
    world.edit_catalog(gnomad={"min_af": 0.02})
    found = evaluate(world)
    stale = {subject: each for subject, each in found.items() if not each.passed}
    assert set(stale) == {("gnomad/shard", contig) for contig in CONTIGS}
    for (_, contig), each in stale.items():
        assert (each.severity, each.blocking) == (dg.AssetCheckSeverity.WARN, False)
        assert each.metadata["state"].value == "stale"
        assert each.metadata["reasons"].value == "- recipe params min_af: built from 0.01, now 0.02"
        of = dg.AssetRecordsFilter(dg.AssetKey(["gnomad", "shard"]), asset_partitions=[contig])
        (latest,) = world.instance.fetch_materializations(of, limit=1).records
        assert each.target_materialization_data.storage_id == latest.storage_id
    assert automation.tick() == ({}, {})
    # One contig is built again; the others are stale, and the holdouts follow all the same.
    world.make("gnomad/shard", "chr17")
    assert automation.tick() == ({"holdouts/manifest": set(RELEASES)}, {})
    again = evaluate(world)
    assert again["gnomad/shard", "chr17"].passed
    assert not again["gnomad/shard", "chr20"].passed
    assert "input gnomad/shard[chr17]: " in again["holdouts/manifest", RELEASES[0]].metadata["reasons"].value


def test_what_was_built_and_is_gone_is_said_and_what_never_was_is_not(world: BuiltWorld) -> None:
    world.register_release("2025-06-01")
    (world.root / "windows/tiny/chr21").unlink()
    found = evaluate(world)
    assert set(found) == set(BUILT)
    gone = found["windows/index", "chr21"]
    assert (gone.passed, gone.metadata["state"].value) == (False, "not built")
    assert "it was materialised, and nothing is published" in gone.metadata["reasons"].value
    assert found["packages/split", RELEASES[0]].metadata["state"].value == "not compared"


def test_status_says_it_of_each_partition(world: BuiltWorld, genolewm: CommandLine) -> None:
    command = ("status", "--partitions", "--root", world.root, "--catalog", world.catalog)
    assert genolewm(*command) == 0
    lines = genolewm.out.splitlines()
    assert lines[0] == "reference/genome current"
    assert lines[-1] == f"{len(BUILT)} partitions: {len(BUILT)} current"
    assert "no history of runs" in lines[-2]
    assert len(lines) == len(BUILT) + 2

    world.edit_catalog(gnomad={"min_af": 0.02})
    (world.root / "mito/tokens").unlink()
    assert genolewm(*command) == 4
    reason = "recipe params min_af: built from 0.01, now 0.02"
    assert {f"gnomad/shard[chr17] stale: {reason}", "mito/tokens not built"} <= set(genolewm.out.splitlines())
    assert genolewm(*command, "--json") == 4
    found = {(each["asset"], each["partition"]): each for each in json.loads(genolewm.out)}
    assert set(found) == set(BUILT)
    shard = found["gnomad/shard", "chr17"]
    assert (shard["state"], shard["reasons"]) == ("stale", [reason])


def test_what_is_not_built_alone_is_no_failure_and_what_is_no_root_is(
    world: BuiltWorld, genolewm: CommandLine, tmp_path: Path
) -> None:
    (world.root / "mito/tokens").unlink()
    assert genolewm("status", "--partitions", "--root", world.root, "--catalog", world.catalog) == 0
    assert "1 not built" in genolewm.out
    absent = tmp_path / "absent"
    assert genolewm("status", "--root", absent, "--catalog", world.catalog) == 4
    assert "not a root" in genolewm.err
    assert not absent.exists()


def test_without_an_instance_the_releases_are_those_of_the_record(world: BuiltWorld) -> None:
    artefacts = [each.artefact for each in survey_root(world.workspace(), PUBLISHING.values())]
    assert sorted(((each.asset, each.partition) for each in artefacts), key=str) == sorted(BUILT, key=str)
