"""Which folders are runs, what their keys are, and when one is complete."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from genolewm_assets.errors import InputError, MissingResourceError
from genolewm_assets.sources.run_folders.folders import (
    Settling,
    list_run_files,
    list_run_folders,
    run_folder,
    why_unfinished,
)
from genolewm_assets_tests.worlds.forensic.run_folders import simulated

SETTLING = Settling("_COMPLETE", 600.0)
NOW = 2_000_000_000.0


def write(folder: Path, *, age_s: float = 3_600.0, **files: bytes) -> Path:
    """Write files of a run folder whose latest change is ``age_s`` seconds before ``NOW``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (NOW - age_s, NOW - age_s))
    return folder


def unfinished(folder: Path) -> str | None:
    return why_unfinished(folder, list_run_files(folder), SETTLING, NOW)


WHOLE = simulated().files["A06_S2.hid"]


def test_a_quiet_folder_of_whole_files_is_complete(tmp_path: Path) -> None:
    assert unfinished(write(tmp_path / "run", **{"a.hid": WHOLE, "plate.txt": b"x"})) is None


def test_a_folder_that_changed_lately_is_not(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", age_s=599.0, **{"a.hid": WHOLE})
    assert unfinished(folder) == "changed 599 s ago: complete after 600 s without a change"
    assert unfinished(write(folder, age_s=601.0)) is None
    (folder / "b.txt").touch()
    os.utime(folder / "b.txt", (NOW + 50, NOW + 50))
    assert unfinished(folder) == "changed 0 s ago: complete after 600 s without a change"


def test_a_file_that_is_removed_counts_as_a_change(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", **{"a.hid": WHOLE, "b.hid": WHOLE})
    (folder / "b.hid").unlink()
    os.utime(folder, (NOW - 5, NOW - 5))
    assert str(unfinished(folder)).startswith("changed 5 s ago")


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_quiet_folder_with_half_a_file_is_not_complete(tmp_path: Path, share: float) -> None:
    folder = write(tmp_path / "run", **{"a.hid": WHOLE, "b.hid": WHOLE[: int(share * len(WHOLE))]})
    assert str(unfinished(folder)).startswith("b.hid is not whole (")


def test_the_marker_says_that_a_folder_is_complete_whatever_is_in_it(tmp_path: Path) -> None:
    assert unfinished(write(tmp_path / "run", age_s=0.0, **{"a.hid": WHOLE[:100], "_COMPLETE": b""})) is None
    inside = write(tmp_path / "other" / "sub", age_s=0.0, **{"_COMPLETE": b"", "a.hid": WHOLE})
    assert unfinished(inside.parent) is not None, "the marker of a folder inside says nothing of the whole"


def test_names_become_keys_without_two_folders_sharing_one(tmp_path: Path) -> None:
    names = ["2024-01-07_run.2", "2017-05-30 PPF6C", "2017-05-30-PPF6C", "2017-05-30+PPF6C", "Lauf ä", "-"]
    for name in names:
        (tmp_path / name).mkdir()
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "file.hid").touch()
    found = list_run_folders(tmp_path)
    assert sorted(path.name for path in found.values()) == sorted(names)
    assert found["2024-01-07_run.2"].name == "2024-01-07_run.2"
    assert list(found) == sorted(found)
    assert len({key.partition(".")[0] for key in found if key.startswith("2017")}) == 1
    assert all(run_folder(tmp_path, key) == path for key, path in found.items())


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingResourceError, match="is no folder"):
        list_run_folders(tmp_path / "runs")
    with pytest.raises(MissingResourceError, match=r"has no folder of this run: expected 'x', got 0 other folders"):
        run_folder(tmp_path, "x")


def test_files_in_folders_are_listed_and_pipes_are_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", **{"b.hid": WHOLE})
    write(folder / "a", **{"c.hid": b""})
    assert [file.name for file in list_run_files(folder)] == ["a/c.hid", "b.hid"]
    (folder / "broken").symlink_to("nowhere")
    with pytest.raises(InputError, match="disappeared, or is a broken link"):
        list_run_files(folder)
    (folder / "broken").unlink()
    os.mkfifo(folder / "pipe")
    with pytest.raises(InputError, match="is no regular file"):
        list_run_files(folder)
