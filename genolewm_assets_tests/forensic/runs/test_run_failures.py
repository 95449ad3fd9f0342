"""Files that cannot be used, and what of it stops a run: each has a reason, and each check can fail."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from genolewm_assets.errors import ConfigurationError, InputError, PanelError
from genolewm_assets.forensic import read_hid, read_panel
from genolewm_assets.forensic.runs.build import write_profiles
from genolewm_assets.forensic.runs.checks import _has_top, check_run
from genolewm_assets.forensic.runs.rules import RunRules
from genolewm_assets.forensic.runs.tables import FORENSIC_FILES, FORENSIC_LADDER_ALLELES
from genolewm_assets.sample.forensic.kit import KIT
from genolewm_assets.sample.forensic.run import REPORT
from genolewm_assets.sample.forensic.traces import Signal, injection_bytes, simulate_traces
from genolewm_assets.store.artefacts.check_result import CheckResult
from genolewm_assets.store.tables import write_table
from genolewm_assets_tests.forensic.test_real_runs import DONORS, FOLDER, GENOTYPE_OF_2800M, PANELS, REAL, RUNS
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.forensic.abif_files import write_abif
from genolewm_assets_tests.worlds.forensic.run_folders import (
    NAME,
    RULES,
    BuiltRun,
    build_run,
    everything_said,
    files_of,
    write_run,
)
from genolewm_assets_tests.worlds.forensic.runs import run_tags

LADDER, NEGATIVE, POSITIVE = "A01_ladder.hid", "A03_NTC.hid", "A02_positive.hid"
CONTAMINATION = [Signal(1, 178.0, 900.0)]


class Folder:
    def __init__(self, place: Path) -> None:
        self.run, self.panels = write_run(place)
        self.place = place

    def build(self, **rules: Any) -> BuiltRun:
        return build_run(self.run, self.panels, self.place / "out", rules=replace(RULES, **rules))


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def failed_rows(built: BuiltRun, check: str) -> list[dict[str, object]]:
    assert not built.checks[check].passed
    return [dict(row) for row in built.checks[check].rows]


def test_without_a_ladder_nothing_is_stored(folder: Folder) -> None:
    (folder.run / LADDER).unlink()
    built = folder.build()
    assert built.failed == {"ladder_complete", "size_standard_fits", "negative_clean", "saturation_flagged"}
    (row,) = failed_rows(built, "ladder_complete")
    assert row == {"problem": "the run has no complete ladder", "expected": "at least one", "got": "0 tried"}
    assert len(built.store) == 0
    assert {row["reason"] for name, row in built.files.items() if name.endswith(".hid")} == {"no_ladder"}


def test_a_sample_in_place_of_the_ladder_is_no_ladder(folder: Folder) -> None:
    shutil.copy(folder.run / "A04_S1_1.hid", folder.run / LADDER)
    built = folder.build(ladder_names=("a01*",))
    assert "ladder_complete" in built.failed
    assert built.files[LADDER]["reason"] == "ladder_not_fitted"
    assert "most of its ladder alleles are not found" in built.files[LADDER]["problem"]


def test_an_incomplete_ladder_is_left_out_and_a_complete_one_is_used(folder: Folder) -> None:
    signals = [Signal(each.channel, each.size_bp(a), 2_400.0) for each in KIT for a in each.ladder]
    without = [signal for signal in signals if signal.panel_bp != KIT[3].size_bp("14")]
    raw, analysed = simulate_traces(without, 11)
    other = injection_bytes(raw, analysed, injection=11, sample="ladder 2", kind="Allelic Ladder")
    (folder.run / "A00_ladder.hid").write_bytes(other)
    built = folder.build()
    assert built.failed == set()
    assert built.files["A00_ladder.hid"]["reason"] == "ladder_incomplete"
    assert {row["ladder"] for row in built.files.values()} == {None, LADDER}
    (folder.run / LADDER).unlink()
    shutil.rmtree(folder.place / "out")
    rows = failed_rows(folder.build(), "ladder_complete")
    assert {"locus": "SIM03", "allele": "14"}.items() <= rows[0].items()


def test_a_truncated_file_and_a_file_without_size_standard_are_left_out(folder: Folder) -> None:
    path = folder.run / "A06_S2.hid"
    path.write_bytes(path.read_bytes()[:90_000])
    built = folder.build()
    assert built.failed == set()
    assert built.files["A06_S2.hid"]["reason"] == "unreadable"
    assert "truncated" in built.files["A06_S2.hid"]["problem"]
    assert built.files["A09_S5.hid"]["reason"] == "not_sized"
    assert len(built.store) == 6


@pytest.mark.parametrize("role", [NEGATIVE, LADDER])
def test_a_control_without_size_standard_stops_the_run(folder: Folder, role: str) -> None:
    shutil.copy(folder.run / "A09_S5.hid", folder.run / role)
    built = folder.build(ladder_names=("a01*",), negative_names=("a03*",))
    assert built.files[role]["reason"] == "not_sized"
    assert {NEGATIVE: "negative_clean", LADDER: "ladder_complete"}[role] in built.failed


def test_a_contaminated_negative_control_is_found_without_naming_its_alleles(folder: Folder) -> None:
    contaminated = simulate_traces(CONTAMINATION, 3)
    data = injection_bytes(*contaminated, injection=3, sample="NTC", kind="Negative Control")
    (folder.run / NEGATIVE).write_bytes(data)
    built = folder.build()
    assert built.failed == {"negative_clean"}
    (row,) = failed_rows(built, "negative_clean")
    assert row == {"file": NEGATIVE, "loci_called": 1, "peaks_above_the_threshold": 1}


def test_a_run_without_negative_control_is_accepted_only_if_that_is_declared(folder: Folder) -> None:
    (folder.run / NEGATIVE).unlink()
    assert folder.build().failed == {"negative_clean"}
    shutil.rmtree(folder.place / "out")
    built = folder.build(negative_required=False)
    assert built.failed == set()
    assert built.checks["negative_clean"].figures["not_compared"] == "no negative control was stored"


def test_another_person_as_positive_control_is_found(folder: Folder) -> None:
    shutil.copy(folder.run / "A06_S2.hid", folder.run / "A02_positive.hid")
    built = folder.build()
    assert built.failed == {"control_has_its_genotype"}
    (row,) = failed_rows(built, "control_has_its_genotype")
    assert set(row) == {"file", "loci_that_differ", "expected", "got"}
    assert row["got"] == f"{row['loci_that_differ']} of 13"


def test_a_run_with_other_dyes_or_too_many_scans_is_left_out(folder: Folder) -> None:
    three = simulate_traces([], 12)[0][[0, 1, 4]].astype(float)
    (folder.run / "B01.hid").write_bytes(write_abif(run_tags(three, standard="WEN ILS 500")))
    assert folder.build().files["B01.hid"]["reason"] == "other_dyes"
    shutil.rmtree(folder.place / "out")
    built = folder.build(n_scanpoints=2_000)
    assert {row["reason"] for row in built.files.values() if row["role"] == "sample"} >= {"too_long"}
    assert "forensic.n_scanpoints" in built.files["A06_S2.hid"]["problem"]


def test_a_file_that_changes_during_the_build_stops_it(folder: Folder) -> None:
    files, panel = files_of(folder.run), read_panel(*folder.panels)
    (folder.run / "A06_S2.hid").write_bytes((folder.run / "A07_S3.hid").read_bytes())
    (folder.place / "out").mkdir()
    with pytest.raises(InputError, match=r"A06_S2.hid: was changed while the run is built"):
        write_profiles(NAME, files, panel, folder.place / "out", rules=RULES, config={}, sources={})


def test_a_sample_of_two_reports_is_refused(folder: Folder) -> None:
    shutil.copy(folder.run / REPORT, folder.run / "second_annotations.csv")
    with pytest.raises(InputError, match="names samples of another report too: expected each sample once, got 2"):
        folder.build()


def test_an_annotated_allele_without_bin_is_counted(folder: Folder) -> None:
    report = folder.run / REPORT
    report.write_bytes(report.read_bytes() + b"S4,SIM01,99,OL\r\n")
    assert folder.build().report.counts["alleles_without_bin"] == 2


@each_row(
    ("old", "new", "problem", "lines"),
    [
        (b"S3,", b"S3.final,", "lines name no injection", "13 of 26 lines"),
        (b",SIM01,", b",SIM-01,", "lines name no locus of the panel", "2 of 26 lines"),
    ],
)
def test_a_report_of_other_names_is_told(tmp_path: Path, old: bytes, new: bytes, problem: str, lines: str) -> None:
    folder = Folder(tmp_path / problem)
    report = folder.run / REPORT
    report.write_bytes(report.read_bytes().replace(old, new))
    built = folder.build()
    assert built.failed == {"annotations_reach_injections"}
    (row,) = failed_rows(built, "annotations_reach_injections")
    assert (row["file"], row["problem"], row["got"]) == (REPORT, problem, lines)
    assert new.decode().strip(",") not in str(row)


@each_row(
    "wrong", [{"n_scanpoints": 10}, {"analytical_rfu": 20.0}, {"max_residual_bp": float("nan")}, {"detection_rfu": 0.0}]
)
def test_rules_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match=rf"forensic\.{next(iter(wrong))}: is out of range"):
        RunRules(**wrong)


def test_a_panel_of_another_kit_fits_no_ladder(folder: Folder) -> None:
    text = folder.panels[0].read_text().replace("\tblue\t", "\torange\t")
    folder.panels[0].write_text(text)
    built = folder.build()
    assert "ladder_complete" in built.failed
    assert built.files[LADDER]["reason"] == "ladder_not_fitted"
    folder.panels[0].write_text("nothing")
    with pytest.raises(PanelError):
        read_panel(*folder.panels)


def again(folder: Folder, built: BuiltRun) -> dict[str, CheckResult]:
    files = {file.name: file.path for file in files_of(folder.run)}
    checks = check_run(built.directory, NAME, files, read_panel(*folder.panels), RULES)
    return {check.name: check for check in checks}


def test_checks_find_a_file_that_appeared_and_one_that_went(folder: Folder) -> None:
    built = folder.build()
    (folder.run / "plate.txt").rename(folder.run / "other.txt")
    check = again(folder, built)["every_file_accounted_for"]
    problems = [(row["file"], row["problem"]) for row in check.rows]
    assert problems == [("other.txt", "is not accounted for"), ("plate.txt", "is not in the folder")]


@pytest.mark.parametrize(
    ("column", "value", "check"),
    [
        ("row", 99, "every_file_accounted_for"),
        ("reason", "unreadable", "every_file_accounted_for"),
        ("fate", "left_out", "every_file_accounted_for"),
        ("saturated_scans", 3, "saturation_flagged"),
        ("first_scan", 700, "saturation_flagged"),
        ("fragments_found", 24, "size_standard_fits"),
        ("max_residual_bp", 0.6, "size_standard_fits"),
        ("peaks_called", 1, "negative_clean"),
    ],
)
def test_checks_find_wrong_rows(folder: Folder, column: str, value: object, check: str) -> None:
    built = folder.build()
    wrong = {"peaks_called": NEGATIVE}.get(column, "A08_S4.hid")
    table = pq.read_table(built.directory / "files.parquet").to_pylist()
    rows = [{**row, column: value} if row["file"] == wrong else row for row in table]
    changed = pa.Table.from_pylist(rows, FORENSIC_FILES.arrow)
    write_table([changed], built.directory / "files.parquet", FORENSIC_FILES)
    assert check in {name for name, each in again(folder, built).items() if not each.passed}


def test_checks_find_a_ladder_allele_out_of_step(folder: Folder) -> None:
    built = folder.build()
    path = built.directory / "ladder_alleles.parquet"
    rows = pq.read_table(path).to_pylist()
    rows[5]["size_bp"] += 1.2
    write_table([pa.Table.from_pylist(rows, FORENSIC_LADDER_ALLELES.arrow)], path, FORENSIC_LADDER_ALLELES)
    check = again(folder, built)["ladder_complete"]
    assert {row["problem"] for row in check.rows} == {"is out of step"}


def test_a_scaler_that_is_off_by_half_a_base_pair_has_no_tops() -> None:
    trace, sizes = np.zeros(1_000, np.int16), np.array([100.0, 150.0])
    for scan in (200, 550):
        trace[scan - 3 : scan + 4] = (100, 300, 700, 900, 700, 300, 100)
    scaler = np.interp(np.arange(1_000), [200, 550], sizes, left=0, right=999).astype(np.float32)
    scaler[:200] = np.linspace(70, 99.9, 200)
    scaler[551:] = np.linspace(150.2, 210, 449)
    assert _has_top(trace, scaler, sizes).tolist() == [True, True]
    assert _has_top(trace, scaler + np.float32(0.6), sizes).tolist() == [False, False]
    assert _has_top(trace, scaler, np.array([400.0])).tolist() == [False]


pytestmark = REAL


@pytest.fixture(scope="module", params=["genemapper", "genemarker"])
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> BuiltRun:
    folder = tmp_path_factory.mktemp("nist")
    run = folder / "run"
    run.mkdir()
    for path in FOLDER.iterdir():
        if path.is_file():
            (run / path.name).symlink_to(path)
    panels = [FOLDER / name for name in PANELS[request.param]]
    return build_run(run, panels, folder / "out", rules=RunRules())


def test_every_check_passes(built: BuiltRun) -> None:
    assert built.failed == set()
    assert built.checks["ladder_complete"].figures["alleles"] == 433
    assert built.checks["size_standard_fits"].figures["max_residual_bp"] < 0.5
    assert built.checks["saturation_flagged"].figures["saturated_profiles"] == 2
    counts = built.report.counts
    wanted = {"role.ladder": 1, "role.negative": 1, "role.positive": 1, "role.sample": len(DONORS), "fate.stored": 9}
    assert {name: counts[name] for name in wanted} == wanted
    assert counts["files"] == len(RUNS) + 2 == counts["fate.stored"] + counts["fate.used"] + counts["fate.left_out"]


def test_the_controls_are_what_they_should_be(built: BuiltRun) -> None:
    called = {locus: tuple(own) for locus, own in built.alleles("PPF6C_2800M.hid")["called"].items()}
    assert called == GENOTYPE_OF_2800M
    assert not any(built.alleles("PPF6C_neg.hid")["called"].values())


@each_row("run", [run for run in RUNS if run != "ladder"])
def test_rows_are_the_traces_of_the_file_between_the_fragments(built: BuiltRun, run: str) -> None:
    row, hid = built.files[f"PPF6C_{run}.hid"], read_hid(FOLDER / f"PPF6C_{run}.hid")
    data, annotation, scaler = built.store.get_row(row["row"])
    assert data.shape == (6, 5_120)
    first = row["first_scan"]
    for channel, dye in enumerate(hid.dyes):
        assert (data[channel] == dye.analysed[first : first + 5_120]).all()
    # SMap 2 is the size of each scan as the instrument's own software computed it.
    inside = (scaler > 62) & (scaler < 498)
    assert np.abs(hid.tags["SMap", 2][first : first + 5_120] - scaler)[inside].max() < 0.1
    assert not annotation.any()


def test_nothing_that_leaves_the_root_names_an_allele_of_a_donor(built: BuiltRun) -> None:
    said = everything_said(built)
    for run in DONORS:
        for locus, alleles in built.alleles(f"PPF6C_{run}.hid")["called"].items():
            assert f'"{locus}"' not in said
            assert not [allele for allele in alleles if "." in allele and f'"{allele}"' in said]


def test_the_folder_is_only_read(built: BuiltRun) -> None:
    assert {path.name for path in (built.directory.parent / "run").iterdir()} == {
        path.name for path in FOLDER.iterdir() if path.is_file()
    }
    assert Path(built.directory / "_COMPLETE").is_file()
