"""Listing folders, and naming what cannot be read."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from genolewm_assets.errors import InputError, ResourceError
from genolewm_assets.store.files.walk import reading, walk


def test_every_folder_is_listed_once(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "f").touch()
    assert [(folder, sorted(names)) for folder, _, names in walk(tmp_path)] == [
        (tmp_path, []),
        (tmp_path / "a", ["f"]),
        (tmp_path / "a" / "b", []),
    ]


@pytest.mark.parametrize("name", ["deep/file", None])
def test_the_path_that_cannot_be_read_is_named_or_else_the_folder(tmp_path: Path, name: str | None) -> None:
    unreadable = OSError(errno.EACCES, "Permission denied", name)
    with pytest.raises(ResourceError, match="cannot be read") as caught, reading(tmp_path):
        raise unreadable
    assert caught.value.where == (name or str(tmp_path))


def test_errors_of_this_package_pass_unchanged(tmp_path: Path) -> None:
    own = InputError("here", "wrong")
    with pytest.raises(InputError) as caught, reading(tmp_path):
        raise own
    assert caught.value is own
