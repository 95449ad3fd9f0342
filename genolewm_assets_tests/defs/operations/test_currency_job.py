"""``check_current`` and ``genolewm status --partitions``: what they say of each partition; they shut no gate."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
import yaml

from genolewm_assets.defs.assets.graph import PUBLISHING
from genolewm_assets.defs.operations.currency_job import check_current_schedule
from genolewm_assets.defs.runtime.currency import BUILT_FROM_CURRENT_INPUTS, survey_root
from genolewm_assets_tests.command_line import run
from genolewm_assets_tests.worlds.graph.built_world import STEPS, Automation, BuiltWorld
from genolewm_assets_tests.worlds.graph.tiny_world import CONTIGS, RELEASES

#: Every partition of every asset that publishes something.
BUILT = {(key, partition) for keys, partitions in STEPS for key in keys for partition in partitions}

Subject = tuple[str, str | None]


@pytest.fixture
def world(built: BuiltWorld, tmp_path: Path) -> Iterator[BuiltWorld]:
    with built.copied_to(tmp_path / "world") as copied:
        yield copied


def evaluate(world: BuiltWorld) -> dict[Subject, dg.AssetCheckEvaluation]:
    """Run the job, and return what it says of each partition."""
    result = world.run_job("check_current")
    assert result.success
    found = [each for each in result.get_asset_check_evaluations() if each.check_name == BUILT_FROM_CURRENT_INPUTS]
    return {(each.asset_key.to_user_string(), each.partition): each for each in found}


def raise_frequency(world: BuiltWorld) -> None:
    document = yaml.safe_load(world.catalog.read_text())
    document["gnomad"]["min_af"] = 0.02
    world.catalog.write_text(yaml.safe_dump(document))


def test_all_is_current_right_after_the_builds(world: BuiltWorld) -> None:
    found = evaluate(world)
    assert set(found) == BUILT
    # The catalogue asks for no frozen epoch.
    assert {key for key, _ in found} == set(PUBLISHING) - {"tuples/frozen"}
    assert all(each.passed for each in found.values())


@pytest.mark.nightly
def test_a_changed_parameter_is_a_warning_and_shuts_no_gate(world: BuiltWorld) -> None:
    automation = Automation(world)
    raise_frequency(world)
    found = evaluate(world)
    stale = {subject for subject, each in found.items() if not each.passed}
    assert stale == {("gnomad/shard", contig) for contig in CONTIGS}
    for contig in CONTIGS:
        each = found["gnomad/shard", contig]
        assert each.severity is dg.AssetCheckSeverity.WARN
        assert not each.blocking
        assert each.metadata["state"].value == "stale"
        assert each.metadata["reasons"].value == "- recipe params min_af: built from 0.01, now 0.02"
        latest = world.instance.fetch_materializations(
            dg.AssetRecordsFilter(dg.AssetKey(["gnomad", "shard"]), asset_partitions=[contig]), limit=1
        ).records[0]
        assert each.target_materialization_data.storage_id == latest.storage_id
    assert automation.tick() == ({}, {})
    # One contig is built again; the others are stale, and the holdouts follow all the same.
    assert world.materialize("gnomad/shard", partition="chr17").success
    assert automation.tick() == ({"holdouts/manifest": set(RELEASES)}, {})
    again = evaluate(world)
    assert again["gnomad/shard", "chr17"].passed
    assert not again["gnomad/shard", "chr20"].passed
    assert "input gnomad/shard[chr17]: " in again["holdouts/manifest", RELEASES[0]].metadata["reasons"].value


def test_what_was_built_and_is_gone_is_said_and_what_never_was_is_not(world: BuiltWorld) -> None:
    world.register_release("2025-06-01")
    (world.root / "windows/tiny/chr21").unlink()
    found = evaluate(world)
    assert set(found) == BUILT
    gone = found["windows/index", "chr21"]
    assert not gone.passed
    assert gone.metadata["state"].value == "not built"
    assert "it was materialised, and nothing is published" in gone.metadata["reasons"].value
    assert found["packages/split", RELEASES[0]].metadata["state"].value == "not compared"


def test_it_runs_daily_and_on_demand() -> None:
    assert check_current_schedule.default_status is dg.DefaultScheduleStatus.RUNNING
    minute, hour, *rest = str(check_current_schedule.cron_schedule).split()
    assert minute.isdigit()
    assert hour.isdigit()
    assert rest == ["*", "*", "*"]


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what a command sets in the environment from other tests."""
    monkeypatch.setattr(os, "environ", os.environ.copy())


@pytest.mark.usefixtures("environment")
def test_status_says_it_of_each_partition(
    world: BuiltWorld, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("status", "--partitions", "--root", world.root, "--catalog", world.catalog)
    assert run(monkeypatch, *command) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "reference/genome current"
    assert lines[-1] == f"{len(BUILT)} partitions: {len(BUILT)} current"
    assert "no history of runs" in lines[-2]
    assert len(lines) == len(BUILT) + 2

    raise_frequency(world)
    shutil.rmtree(world.root / "mito/tokens", ignore_errors=True)
    (world.root / "mito/tokens").unlink(missing_ok=True)
    assert run(monkeypatch, *command) == 4
    out = capsys.readouterr().out
    assert "gnomad/shard[chr17] stale: recipe params min_af: built from 0.01, now 0.02\n" in out
    assert "mito/tokens not built\n" in out

    assert run(monkeypatch, *command, "--json") == 4
    found = {(each["asset"], each["partition"]): each for each in json.loads(capsys.readouterr().out)}
    assert set(found) == BUILT
    assert found["gnomad/shard", "chr17"]["state"] == "stale"
    assert found["gnomad/shard", "chr17"]["reasons"] == ["recipe params min_af: built from 0.01, now 0.02"]


@pytest.mark.usefixtures("environment")
def test_what_is_not_built_alone_is_no_failure_and_what_is_no_root_is(
    world: BuiltWorld, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (world.root / "mito/tokens").unlink()
    assert run(monkeypatch, "status", "--partitions", "--root", world.root, "--catalog", world.catalog) == 0
    assert "1 not built" in capsys.readouterr().out
    absent = tmp_path / "absent"
    assert run(monkeypatch, "status", "--root", absent, "--catalog", world.catalog) == 4
    assert "not a root" in capsys.readouterr().err
    assert not absent.exists()


def test_without_an_instance_the_releases_are_those_of_the_record(world: BuiltWorld) -> None:
    surveyed = survey_root(world.workspace(), PUBLISHING.values())
    found = [(each.artefact.asset, each.artefact.partition) for each in surveyed]
    assert set(found) == BUILT
    assert len(found) == len(BUILT)
