"""The simulated files as a plain reading of their bytes finds them: two directories, one of them scrambled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from genolewm_assets.forensic import read_hid
from genolewm_assets.sample.forensic.run import PANEL_FILE
from genolewm_assets_tests.referees.plain_abif import header_entries, plain_entries
from genolewm_assets_tests.worlds.forensic.run_folders import simulated

FILES = [name for name in simulated().files if name.endswith(".hid")]
_SCRAMBLED = range(28, 35)


@pytest.fixture
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    place = tmp_path / request.param
    place.write_bytes(simulated().files[request.param])
    return place


@pytest.mark.parametrize("path", FILES, indirect=True)
def test_the_main_directory_is_scrambled_and_the_other_is_not(path: Path) -> None:
    data, main = header_entries(path)
    _, plain = plain_entries(path)
    assert data[:4] == b"ABIF"
    assert [(each.name, each.number) for each in main] == [(each.name, each.number) for each in plain]
    hidden = {each.name for each in main if each.kind in _SCRAMBLED}
    assert hidden == {"DATA", "DyeN", "DyeW", "ScPa", "Satd", "OfSc"}
    assert not [each for each in plain if each.kind in _SCRAMBLED]
    for mine, other in zip(main, plain, strict=True):
        if mine.kind in _SCRAMBLED:
            assert mine.size % 8 == 0
            assert mine.stored(data)[: other.size] != other.stored(data)


@pytest.mark.parametrize("path", FILES, indirect=True)
def test_the_reader_finds_the_plain_values(path: Path) -> None:
    data, plain = plain_entries(path)
    run = read_hid(path)
    assert len(run.tags) == len(plain)
    traces = {each.number: each.stored(data) for each in plain if each.name == "DATA"}
    assert sorted(traces) == [1, 2, 3, 4, 9, 10, 11, 12, 105, 205]
    for dye, raw, analysed in zip(run.dyes, (1, 2, 3, 4, 105), (9, 10, 11, 12, 205), strict=True):
        assert dye.raw.astype(">i2").tobytes() == traces[raw]
        assert dye.analysed.astype(">i2").tobytes() == traces[analysed]
    assert [dye.name for dye in run.dyes] == ["SIM-B", "SIM-G", "SIM-Y", "SIM-R", "SIM-O"]
    assert (run.run.size_standard, run.run.size_standard_channel) == ("SIM ILS 480", 5)
    assert len(run.run.size_standard_sizes_bp) == 23
    assert run.version == 300


def test_only_the_strong_sample_saturates_the_detector_between_the_fragments(tmp_path: Path) -> None:
    for name in FILES:
        (tmp_path / name).write_bytes(simulated().files[name])
        run = read_hid(tmp_path / name)
        full = np.flatnonzero(np.stack([dye.raw for dye in run.dyes]).max(axis=0) == 32_767)
        assert (run.off_scale == full).all()
        assert (run.off_scale > 800).any() == (name == "A08_S4.hid")


def test_the_kit_is_none_of_the_trade() -> None:
    text = simulated().kit_files[PANEL_FILE].decode()
    assert not [
        name for name in ("D3S1358", "TH01", "vWA", "FGA", "D21S11", "PowerPlex", "GlobalFiler") if name in text
    ]
