"""A package without a mapped form gets one in the cache folder of the machine, once, from its tables."""

from __future__ import annotations

import json
import os
import pickle
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from genolewm_assets.errors import CorruptResourceError, ResourceError
from genolewm_assets.genome import Split
from genolewm_assets.lewm.holdouts.schema import HOLDOUT_INTERVALS
from genolewm_assets.lewm.mapped import opening
from genolewm_assets.lewm.mapped.opening import check_no_held_window, open_mapped
from genolewm_assets.lewm.mapped.windows import MappedWindows
from genolewm_assets.lewm.package_build.writer import write_package
from genolewm_assets.lewm.packages.files import write_package_table
from genolewm_assets.lewm.packages.info import read_package_info
from genolewm_assets.lewm.packages.reader import Package
from genolewm_assets_tests.worlds.lewm.mapped_world import without_arrays
from genolewm_assets_tests.worlds.lewm.package_world import intervals, make_sources


@pytest.fixture
def older(tmp_path, monkeypatch) -> Package:
    """Return a package as format 2.1 has them, and an empty cache folder."""
    monkeypatch.setenv("GENOLEWM_CACHE", str(tmp_path / "cache"))
    write_package(tmp_path / "package", make_sources())
    return without_arrays(tmp_path / "package")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("split", Split)
def test_the_form_made_of_the_tables_is_the_one_that_the_package_carries(older, split):
    own = open_mapped(Package(older.directory, read_package_info(older.directory), {}), split)
    made = open_mapped(older, split)
    assert own.folder == older.directory / "arrays" / split
    assert made.folder.is_relative_to(os.environ["GENOLEWM_CACHE"])
    assert contents(made.folder) == contents(own.folder)


def test_a_package_of_format_2_2_carries_a_form_that_is_not_read(older):
    carried = read_package_info(older.directory)
    package = Package(older.directory, replace(carried, format_version="2.2"), {})
    expected = contents(older.directory / "arrays" / Split.TRAIN)
    made = open_mapped(package, Split.TRAIN)
    assert made.folder.is_relative_to(os.environ["GENOLEWM_CACHE"])
    assert contents(made.folder) == expected


def test_it_is_made_once_and_again_if_a_file_changed(older, monkeypatch):
    folder = open_mapped(older, Split.TEST).folder
    first = contents(folder)
    path = folder / "windows" / "start.npy"
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    open_mapped(older, Split.TEST)
    assert contents(folder) == first
    path.unlink()
    open_mapped(older, Split.TEST)
    assert contents(folder) == first
    monkeypatch.setattr(opening, "write_from_tables", None)
    open_mapped(older, Split.TEST)
    assert sorted(path.name for path in folder.parent.iterdir()) == ["test", "test.json", "test.lock"]


@pytest.mark.parametrize("loose", ["cache", "mapped", "form", "record"])
def test_a_form_that_others_can_have_written_is_not_believed(older, loose):
    folder = open_mapped(older, Split.TEST).folder
    first, record, path = contents(folder), folder.with_name("test.json"), folder / "windows" / "start.npy"
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    forged = opening._LocalForm(older, Split.TEST, folder.parent.name)
    forged._folder = folder
    record.write_text(json.dumps(forged._stamps()))
    assert contents(open_mapped(older, Split.TEST).folder) != first
    places = {"cache": folder.parents[2], "mapped": folder.parents[1], "form": folder.parent, "record": record}
    places[loose].chmod(places[loose].stat().st_mode | 0o002)
    assert contents(open_mapped(older, Split.TEST).folder) == first


def test_what_a_killed_process_left_is_removed(older, monkeypatch):
    def fail(folder: Path, *_: object) -> None:
        folder.mkdir()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(opening, "write_from_tables", fail)
        with pytest.raises(KeyboardInterrupt):
            open_mapped(older, Split.TEST)
    (parent,) = (Path(os.environ["GENOLEWM_CACHE"]) / "mapped").iterdir()
    assert [path.name for path in parent.iterdir()] == ["test.lock"]
    (parent / ".test.0123.tmp").mkdir()
    open_mapped(older, Split.TEST)
    assert sorted(path.name for path in parent.iterdir()) == ["test", "test.json", "test.lock"]


def test_other_packages_and_splits_have_folders_of_their_own(older):
    other = replace(older, info=replace(older.info, release="2026-01-01"))
    folders = {open_mapped(older, Split.TEST).folder, open_mapped(other, Split.TEST).folder}
    assert len(folders | {open_mapped(older, Split.TRAIN).folder}) == 3


def test_a_cache_folder_that_cannot_be_written_says_what_to_do(older, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GENOLEWM_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    with pytest.raises(ResourceError, match=r"cannot hold the mapped form of package .*Set GENOLEWM_CACHE"):
        open_mapped(older, Split.TEST)


def test_damaged_tables_are_not_made_into_a_form(older):
    path = older.directory / "variants" / "test.parquet"
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    with pytest.raises(CorruptResourceError, match=r"variants/test\.parquet: content differs"):
        open_mapped(older, Split.TEST)


def test_a_training_window_in_a_held_out_interval_is_refused(older):
    check_no_held_window(older)
    path = older.directory / "holdouts" / "intervals.parquet"
    window = next(row for row in older.windows(Split.TRAIN).to_pylist() if row["origin"] == "reference")
    for at, met in ((window["end"] + older.info.margin_bp - 1, True), (29_999, False)):
        path.unlink()
        write_package_table(path, [intervals(("holdout-chr", "test", "chr17", at, at + 1))], HOLDOUT_INTERVALS)
        if met:
            with pytest.raises(CorruptResourceError, match="training windows of chr17: some overlap held-out"):
                check_no_held_window(older)
        else:
            check_no_held_window(older)


def _sequence_of(pickled: bytes) -> str:
    return pickle.loads(pickled).record(1).sequence


def test_a_spawned_process_opens_the_same_windows(older):
    windows = MappedWindows(open_mapped(older, Split.TRAIN))
    with get_context("spawn").Pool(1) as pool:
        assert pool.map(_sequence_of, [pickle.dumps(windows)]) == [windows.record(1).sequence]


def test_two_processes_at_once_make_it_once(older):
    with get_context("fork").Pool(2) as pool:
        folders = pool.starmap(_opened, [(older, Split.TRAIN)] * 2)
    assert len(set(folders)) == 1
    assert np.load(Path(folders[0]) / "windows" / "frozen.npy").all()


def _opened(package: Package, split: Split) -> str:
    return str(open_mapped(package, split).folder)
