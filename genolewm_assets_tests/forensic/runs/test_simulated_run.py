"""What the pipeline recovers from the simulated run is what was simulated: genotypes, flags, sizes, fates of files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genolewm_assets.forensic import read_hid
from genolewm_assets.sample.forensic.kit import KIT
from genolewm_assets.sample.forensic.run import BACK_STUTTER, REPORT
from genolewm_assets.sample.forensic.traces import PULL_UP, measured_bp, scans_of
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.forensic.run_folders import (
    BuiltRun,
    build_run,
    bytes_of,
    everything_said,
    simulated,
    write_run,
)

TRUTH = simulated().truth
PROFILES = [name for name, truth in TRUTH.items() if truth.role != "ladder"]
LOCI = {locus.name: locus for locus in KIT}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run")


@pytest.fixture(scope="module")
def built(folder: Path) -> BuiltRun:
    return build_run(*write_run(folder), folder / "out")


def peaks(built: BuiltRun, file: str, locus: str) -> list[dict[str, Any]]:
    return [peak for peak in built.alleles(file)["peaks"] if peak["locus"] == locus]


def test_every_check_passes_and_compared_something(built: BuiltRun) -> None:
    assert built.failed == set()
    compared = {name: check.figures.get("compared") for name, check in built.checks.items()}
    assert compared == {
        "schema_as_declared": None,
        "every_file_accounted_for": 12,
        "annotations_reach_injections": 26,
        "size_standard_fits": 7,
        "ladder_complete": 1,
        "negative_clean": 1,
        "control_has_its_genotype": 1,
        "saturation_flagged": 7,
    }


def test_every_file_has_the_fate_that_was_meant_for_it(built: BuiltRun) -> None:
    files = built.files
    assert set(files) == set(simulated().files)
    roles = {name: truth.role for name, truth in TRUTH.items()}
    assert {name: files[name]["role"] for name in roles} == roles
    assert {name: row["reason"] for name, row in files.items() if row["fate"] == "left_out"} == simulated().unusable
    assert [name for name, row in files.items() if row["fate"] == "used"] == ["A01_ladder.hid", REPORT]
    assert [name for name, row in files.items() if row["fate"] == "stored"] == PROFILES
    counts = built.report.counts
    assert counts["files"] == 12 == sum(n for name, n in counts.items() if name.startswith("fate."))
    assert counts["fate.left_out"] == 3 == sum(n for name, n in counts.items() if name.startswith("left_out."))


@each_row("file", PROFILES)
def test_the_genotype_is_the_simulated_one(built: BuiltRun, file: str) -> None:
    called = {locus: tuple(alleles) for locus, alleles in built.alleles(file)["called"].items()}
    assert called == TRUTH[file].expected()


def test_dropped_alleles_are_seen_and_flagged_as_low(built: BuiltRun) -> None:
    dropped = TRUTH["A07_S3.hid"].dropped
    assert sum(map(len, dropped.values())) == 4
    for locus, alleles in dropped.items():
        own = {peak["allele"]: peak for peak in peaks(built, "A07_S3.hid", locus)}
        for allele in alleles:
            assert "low" in own[allele]["flags"]
            assert own[allele]["height_rfu"] < 175


def test_saturated_alleles_are_flagged_and_their_pull_up_is_not_called(built: BuiltRun) -> None:
    file = "A08_S4.hid"
    every = built.alleles(file)["peaks"]
    for name in TRUTH[file].saturated:
        locus = LOCI[name]
        for allele in TRUTH[file].genotype[name]:
            own = [peak for peak in peaks(built, file, name) if peak["allele"] == allele]
            assert ["off_scale" in peak["flags"] for peak in own] == [True]
            next_dye = [peak for peak in every if peak["channel"] == locus.channel % 4 + 1]
            beside = [peak for peak in next_dye if abs(peak["scan"] - own[0]["scan"]) < 2]
            assert beside, "the simulated pull-up lies in a locus of the next dye"
            assert all({"pull_up", "off_scale"} <= set(peak["flags"]) for peak in beside)
            # Heterozygous balance takes up to 15 %, stutter of the neighbour adds up to 10 %.
            assert all(0.84 < peak["height_rfu"] / (PULL_UP * 44_000) < 1.12 for peak in beside)
    off_scale = {name for name in PROFILES if built.files[name]["saturated_scans"]}
    assert off_scale == {file}


def test_simulated_stutter_is_flagged(built: BuiltRun) -> None:
    compared = 0
    for file in ("A04_S1_1.hid", "A06_S2.hid"):
        for name, alleles in TRUTH[file].genotype.items():
            locus = LOCI[name]
            if locus.is_sex_marker or len(set(alleles)) < 2:
                continue
            high = locus.size_bp(alleles[1])
            others = [locus.size_bp(alleles[0]), locus.size_bp(alleles[0]) + locus.repeat_bp]
            if min(abs(high - locus.repeat_bp - other) for other in others) < 2:
                continue
            own = peaks(built, file, name)
            (allele,) = [peak for peak in own if peak["allele"] == alleles[1]]
            (stutter,) = [peak for peak in own if abs(peak["size_bp"] - allele["size_bp"] + locus.repeat_bp) < 0.3]
            assert "stutter" in stutter["flags"]
            assert stutter["height_rfu"] == pytest.approx(BACK_STUTTER * allele["height_rfu"], rel=0.15)
            compared += 1
    assert compared > 5


@each_row("number", range(2, 9))
def test_the_scaler_is_the_simulated_one(built: BuiltRun, number: int) -> None:
    file = next(name for name in PROFILES if name.startswith(f"A{number:02}"))
    row = built.files[file]
    _, _, scaler = built.store.get_row(row["row"])
    sizes = np.arange(65, 475, 5.0)
    scans = np.array([scans_of(size, number) for size in sizes]) - row["first_scan"]
    assert np.abs(np.interp(scans, np.arange(len(scaler)), scaler) - sizes).max() < 0.05


def test_rows_are_the_traces_of_the_file(built: BuiltRun, folder: Path) -> None:
    for file in PROFILES:
        row, run = built.files[file], read_hid(folder / "runs/run" / file)
        data, _, _ = built.store.get_row(row["row"])
        kept = min(len(data[0]), run.n_scans - row["first_scan"])
        for channel, dye in enumerate(run.dyes):
            assert (data[channel, :kept] == dye.analysed[row["first_scan"] :][:kept]).all()
            assert not data[channel, kept:].any()


def test_annotated_samples_have_masks_round_their_alleles(built: BuiltRun) -> None:
    entries = {entry.path.partition("/")[2]: entry for entry in built.store.load_index()}
    assert {name for name, entry in entries.items() if entry.has_annotation} == {"A06_S2.hid", "A07_S3.hid"}
    for number, file in ((6, "A06_S2.hid"), (7, "A07_S3.hid")):
        row = built.files[file]
        _, mask, _ = built.store.get_row(row["row"])
        marked = np.zeros_like(mask)
        for name, alleles in TRUTH[file].genotype.items():
            locus = LOCI[name]
            for allele in set(alleles):
                centre = scans_of(measured_bp(locus.size_bp(allele)), number) - row["first_scan"]
                marked[locus.channel - 1, round(centre)] = 1
        assert (mask[marked == 1] == 1).all()
        assert mask.sum() == pytest.approx(6.5 * marked.sum(), rel=0.2), "a bin of 0.9 bp has some six scans"
        assert set(np.unique(mask)) == {0, 1}
        genotype = TRUTH[file].genotype.items()
        assert built.alleles(file)["annotated"] == {name: list(dict.fromkeys(own)) for name, own in genotype}
    assert not built.store.get_row(0)[1].any()


def test_the_same_folder_gives_the_same_bytes(built: BuiltRun, folder: Path, tmp_path: Path) -> None:
    run, panels = write_run(tmp_path)
    again = build_run(run, list(reversed(panels)), tmp_path / "out")
    assert bytes_of(again.directory) == bytes_of(built.directory)


def test_no_allele_of_a_sample_is_stated_in_counts_checks_or_tables(built: BuiltRun) -> None:
    said = json.loads(everything_said(built))
    words = set(map(str, _leaves(said)))
    assert not words & {allele for locus in KIT for allele in locus.ladder if "." in allele}
    assert not any(locus.name in word for word in words for locus in KIT)
    assert repr(built.store)
    columns = {name for row in built.files.values() for name in row}
    assert not {name for name in columns if "allele" in name or "genotype" in name}


def _leaves(value: object) -> list[object]:
    match value:
        case dict():
            return [leaf for key, each in value.items() for leaf in [key, *_leaves(each)]]
        case list():
            return [leaf for each in value for leaf in _leaves(each)]
    return [value]
