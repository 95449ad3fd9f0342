"""``forensic/profiles`` on the simulated run: what its page shows, what builds it again, what stops it."""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest

from genolewm_assets.defs.assets.graph import GATED
from genolewm_assets.defs.runtime.gates import STANDING_CHECKS
from genolewm_assets.forensic import MemmapCacheReader
from genolewm_assets.forensic.runs.checks import RUN_CHECKS
from genolewm_assets.sample.forensic.kit import KIT
from genolewm_assets.sample.forensic.run import COMPLETE, REPORT
from genolewm_assets.store.artefacts.verify import verify_root
from genolewm_assets_tests.pictures import fitting
from genolewm_assets_tests.worlds.forensic.run_folders import NAME
from genolewm_assets_tests.worlds.graph.forensic_world import PROFILES, ForensicWorld
from genolewm_assets_tests.worlds.graph.tiny_world import blocking_checks, failed_checks, refusal_of, shown_of


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[ForensicWorld, dg.ExecuteInProcessResult]:
    """Return a world whose run is built, and the run that built it."""
    world = ForensicWorld(tmp_path_factory.mktemp("forensic") / "world")
    world.keep_history()
    world.register()
    result = world.materialize(PROFILES, partition=NAME)
    assert result.success
    return world, result


@pytest.fixture
def world(built: tuple[ForensicWorld, object], tmp_path: Path) -> Iterator[ForensicWorld]:
    """Return a copy that the test may change."""
    with built[0].copied_to(tmp_path / "world") as copied:
        yield copied  # type: ignore[misc]


def test_what_the_page_shows(built: tuple[ForensicWorld, dg.ExecuteInProcessResult]) -> None:
    entries = shown_of(built[1], PROFILES).metadata
    shown = {name: value.value for name, value in entries.items()}
    assert {"dagster/partition_row_count": 7, "annotated": 2, "left_out": 3, "saturated": 1}.items() <= shown.items()
    assert "sample_rows" not in shown, "personal data"
    assert 0 < shown["max_residual_bp"] < 0.1
    assert shown["files_left_out"].splitlines()[2:] == ["| not_an_instrument_file | 2 |", "| not_sized | 1 |"]
    checks = {check.check_name for check in blocking_checks(built[1]) if check.passed}
    assert checks == {*STANDING_CHECKS, *RUN_CHECKS}

    (ladder, _), (quality, _) = fitting(entries["ladder"]), fitting(entries["quality"])
    assert ladder == (
        f"Ladder of {NAME}: 170 of 170 alleles of 13 loci, marked above the dyes; size standard in channel 5; "
        "dashed: 175 RFU"
    )
    said = rf"7 profiles of {NAME}, 1 saturated; residuals of the size standard up to 0\.\d+ bp, limit 0\.5 bp"
    assert re.fullmatch(said, quality)


def test_no_page_log_or_manifest_names_allele_or_sample(built: tuple[ForensicWorld, dg.ExecuteInProcessResult]) -> None:
    world, result = built
    event = shown_of(result, PROFILES)
    said = [repr(event), (world.open(PROFILES, NAME).directory / "manifest.json").read_text()]
    said += [base64.b64decode(m).decode() for m in re.findall(r"base64,([A-Za-z0-9+/=]+)", json.dumps(repr(event)))]
    said += [str(entry) for entry in world.instance.all_logs(result.run_id)]
    said += [path.read_text() for path in (world.root / "dagster").rglob("*.log")] if world.root.exists() else []
    text = "\n".join(said)
    assert "170 of 170" in text
    assert not set(re.findall(r"[\w.]+", text)) & {locus.name for locus in KIT}
    microvariants = {allele for locus in KIT for allele in (*locus.ladder, *locus.virtual) if "." in allele}
    assert not {f'"{allele}"' for allele in microvariants} & set(re.findall(r'"[\d.]+"', text))


def test_what_is_published_opens_as_a_cache_and_verifies(built: tuple[ForensicWorld, object]) -> None:
    world, _ = built
    reader = MemmapCacheReader(world.root / "forensic" / NAME, check=True)
    assert [entry.path for entry in reader.load_index()][:2] == [f"{NAME}/A02_positive.hid", f"{NAME}/A03_NTC.hid"]
    assert [each.shape for each in reader.get_row(4)] == [(5, 3_072), (5, 3_072), (3_072,)]
    assert verify_root(world.workspace().root) == []


def test_an_unchanged_folder_is_kept_and_a_new_file_is_taken_up(world: ForensicWorld) -> None:
    before = world.open(PROFILES, NAME).directory
    assert world.make(PROFILES, NAME).metadata["reused"].value is True
    assert world.open(PROFILES, NAME).directory == before
    shutil.copy(world.run / "A04_S1_1.hid", world.run / "B01_S1_3.hid")
    assert world.make(PROFILES, NAME).metadata["dagster/partition_row_count"].value == 8


def edit_annotation(world: ForensicWorld) -> None:
    report = world.run / REPORT
    report.write_bytes(report.read_bytes().replace(b"S2,", b"S1,"))


def edit_ladder(world: ForensicWorld) -> None:
    data = bytearray((world.run / "A01_ladder.hid").read_bytes())
    data[data.index(b"SIM ILS")] ^= 0x20
    (world.run / "A01_ladder.hid").write_bytes(bytes(data))


def edit_panel(world: ForensicWorld) -> None:
    bins = world.panels[1]
    bins.write_bytes(bins.read_bytes().replace(b"0.45\t0.45", b"0.5\t0.5"))


@pytest.mark.nightly
@pytest.mark.parametrize(
    "edit",
    [edit_annotation, edit_ladder, edit_panel, lambda world: world.edit_catalog(forensic={"analytical_rfu": 300.0})],
)
def test_an_edit_ages_the_run_and_rebuilds_it(world: ForensicWorld, edit: Callable[[ForensicWorld], None]) -> None:
    def state() -> str:
        return GATED[PROFILES].currency(world.workspace(), NAME).state

    before = world.open(PROFILES, NAME).manifest
    assert state() == "current"
    edit(world)
    assert state() == "stale"
    shown = world.make(PROFILES, NAME).metadata
    assert shown["reused"].value is False
    assert world.open(PROFILES, NAME).manifest.sha256 != before.sha256
    assert state() == "current"
    assert shown["annotated"].value == {edit_annotation: 3}.get(edit, 2)


def test_a_run_without_ladder_is_rejected_and_the_last_good_version_stays(world: ForensicWorld) -> None:
    before = world.open(PROFILES, NAME).directory
    (world.run / "A01_ladder.hid").unlink()
    result = world.materialize(PROFILES, partition=NAME)
    assert not result.success
    assert "ladder_complete" in failed_checks(result)
    assert (world.root / "forensic" / NAME).resolve() == before


def test_a_folder_that_is_still_being_written_is_refused(world: ForensicWorld) -> None:
    (world.run / COMPLETE).unlink()
    error = refusal_of(world.materialize(PROFILES, partition=NAME))
    assert re.search(rf"run folder {NAME}: is not complete: got changed \d+ s ago", error)
    assert "put a file _COMPLETE into the folder" in error
    world.age(3_600)
    assert world.make(PROFILES, NAME).metadata["left_out"].value == 2


def test_a_folder_that_is_gone_is_named(world: ForensicWorld) -> None:
    shutil.rmtree(world.run)
    refusal_of(world.materialize(PROFILES, partition=NAME))
    assert (world.root / "forensic" / NAME).resolve().is_dir()
    world.edit_catalog(forensic={"runs": None})
    refusal_of(world.materialize(PROFILES, partition=NAME))
