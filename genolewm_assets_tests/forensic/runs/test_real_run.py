"""The NIST run of PowerPlex Fusion 6C as a run folder: rows, controls, the account of its files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from genolewm_assets.forensic import read_hid
from genolewm_assets.forensic.runs.rules import RunRules
from genolewm_assets_tests.forensic.test_real_runs import DONORS, FOLDER, GENOTYPE_OF_2800M, PANELS, RUNS
from genolewm_assets_tests.worlds.forensic.run_folders import BuiltRun, build_run, everything_said

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not FOLDER.is_dir(), reason="the real sample data (../shared/data beside the repository) is absent"
    ),
]


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


@pytest.mark.parametrize("run", [run for run in RUNS if run != "ladder"])
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
