"""The sensor of run folders: complete ones are registered and observed, changed ones observed again, others wait."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from genolewm_assets.defs.operations.run_folder_sensor import find_complete, register_runs
from genolewm_assets.sample.forensic.run import COMPLETE
from genolewm_assets_tests.worlds.forensic.run_folders import NAME, simulated
from genolewm_assets_tests.worlds.graph.built_world import Automation
from genolewm_assets_tests.worlds.graph.forensic_world import PARTITIONS, PROFILES, FolderTicks, ForensicWorld


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ForensicWorld]:
    world = ForensicWorld(tmp_path / "world")
    yield world
    world.instance.dispose()


@pytest.fixture
def ticks(world: ForensicWorld) -> FolderTicks:
    return FolderTicks(world)


def versions(world: ForensicWorld) -> list[str]:
    """Return the data versions of all observations of the run folder, newest first."""
    wanted = dg.AssetRecordsFilter(dg.AssetKey(["forensic", "source"]), asset_partitions=[NAME])
    records = world.instance.fetch_observations(wanted, limit=9).records
    return [str(record.asset_observation.tags["dagster/data_version"]) for record in records]


def test_a_new_complete_folder_is_registered_and_observed_once(world: ForensicWorld, ticks: FolderTicks) -> None:
    assert ticks.tick() == ([NAME], [NAME])
    assert world.instance.get_dynamic_partitions(PARTITIONS) == [NAME]
    assert ticks.tick() == ([], [])
    assert ticks.said == "nothing new in 1 run folder"
    assert len(versions(world)) == 1


def test_a_folder_that_is_being_written_waits_until_it_is_complete(world: ForensicWorld, ticks: FolderTicks) -> None:
    (world.run / COMPLETE).unlink()
    assert ticks.tick() == ([], [])
    assert ticks.said.startswith(f"waits for 1: {NAME} changed ")
    cut = world.run / "A06_S2.hid"
    cut.write_bytes(cut.read_bytes()[:90_000])
    world.age(3_600)
    assert ticks.tick() == ([], [])
    assert ticks.said.startswith(f"waits for 1: {NAME} A06_S2.hid is not whole (")
    cut.write_bytes(simulated().files["A06_S2.hid"])
    world.age(3_600)
    assert ticks.tick() == ([NAME], [NAME])


def test_an_edited_folder_or_panel_is_observed_again_when_complete(world: ForensicWorld, ticks: FolderTicks) -> None:
    (world.run / COMPLETE).unlink()
    world.age(3_600)
    assert ticks.tick() == ([NAME], [NAME])
    (world.run / "annotations.csv").write_bytes(b"Sample Name,Marker,Allele 1\nS2,SIM01,12\n")
    assert ticks.tick() == ([], []), "the edit may go on"
    world.age(3_000)
    assert ticks.tick() == ([], [NAME])
    world.panels[0].write_bytes(world.panels[0].read_bytes() + b"\r\n")
    assert ticks.tick() == ([], [NAME])
    assert len(set(versions(world))) == 3
    assert ticks.tick() == ([], [])


def test_a_lost_cursor_registers_nothing_twice_and_changes_no_version(world: ForensicWorld, ticks: FolderTicks) -> None:
    ticks.tick()
    ticks.cursor = "not JSON"
    assert ticks.tick() == ([], [NAME])
    assert len(set(versions(world))) == 1


def test_several_folders_wait_side_by_side(world: ForensicWorld, ticks: FolderTicks) -> None:
    for name in ("2024-02-01", "2024-02-02", "2024-02-03", "2024-02-04"):
        (world.runs / name).mkdir()
    shutil.copytree(world.run, world.runs / "Lauf 7")
    added, observed = ticks.tick()
    assert added == observed
    assert [key.partition(".")[0] for key in added] == ["Lauf-7", NAME]
    assert ticks.tick() == ([], [])
    assert ticks.said.startswith("waits for 4: 2024-02-01 has no instrument file yet; ")
    assert ticks.said.endswith(" and 1 more")


def test_what_is_not_there_is_said(world: ForensicWorld, ticks: FolderTicks) -> None:
    shutil.rmtree(world.runs)
    assert ticks.tick() == ([], [])
    assert "is no folder" in ticks.said
    world.edit_catalog(forensic={"runs": None})
    assert ticks.tick() == ([], [])
    assert ticks.said == "the catalogue names no folder of runs (forensic.runs)"
    assert find_complete(world.workspace()) == ([], {})
    assert register_runs(world.workspace(), world.instance) == []


@pytest.mark.nightly
def test_automation_builds_a_new_run_and_rebuilds_an_edited_one(world: ForensicWorld, ticks: FolderTicks) -> None:
    world.keep_history()
    automation = Automation(world)
    automation.follow({})
    ticks.tick()
    automation.follow({PROFILES: {NAME}}, {})
    report = world.run / "annotations.csv"
    report.write_bytes(report.read_bytes().replace(b"S2,", b"S1,"))
    ticks.tick()
    automation.follow({PROFILES: {NAME}}, {})
