from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from genolewm_assets.errors import InputError, VcfError
from genolewm_assets.sources.files.local import check_local_file


def test_a_file_is_measured_also_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"ACGT")
    (tmp_path / "link").symlink_to("file")
    assert check_local_file(tmp_path / "file") == check_local_file(tmp_path / "link") == 4


PLACES: dict[str, tuple[Callable[[Path], object], str]] = {
    "nothing": (lambda path: None, "does not exist: expected a file|does not exist"),
    "a directory": (Path.mkdir, "is a directory"),
    "a pipe": (os.mkfifo, "is not a regular file"),
    "a device": (lambda path: path.symlink_to("/dev/null"), "is not a regular file"),
    "a link to nothing": (lambda path: path.symlink_to("gone"), "does not exist"),
    "a link to itself": (lambda path: path.symlink_to(path.name), "cannot be read"),
}


@pytest.mark.parametrize("case", PLACES)
@pytest.mark.timeout(10)
def test_what_is_no_file_is_named(case: str, tmp_path: Path) -> None:
    make, problem = PLACES[case]
    make(tmp_path / "place")
    with pytest.raises(InputError, match=problem) as raised:
        check_local_file(tmp_path / "place")
    assert str(raised.value).startswith(f"{tmp_path / 'place'}: ")
    with pytest.raises(VcfError):
        check_local_file(tmp_path / "place", error=VcfError)


def test_a_path_through_a_file_and_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"ACGT")
    with pytest.raises(InputError, match="does not exist"):
        check_local_file(tmp_path / "file" / "more")
    if os.geteuid():
        (tmp_path / "file").chmod(0)
        with pytest.raises(InputError, match=r"cannot be read \(Permission denied\)"):
            check_local_file(tmp_path / "file")
