from __future__ import annotations

import errno
import fcntl
import mmap
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from genolewm_assets.errors import ResourceError, RootError
from genolewm_assets.store.artefacts.build import build
from genolewm_assets.store.artefacts.probe import check_file_system
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets_tests.faults import refusing_disk as disk
from genolewm_assets_tests.faults.refusing_disk import Refusals, on_refusing_disk
from genolewm_assets_tests.faults.small_disk import on_small_disk
from genolewm_assets_tests.worlds.store.plans import LOCATION, make_plan

pytestmark = pytest.mark.disk


def test_a_file_system_that_has_everything_is_accepted_and_nothing_is_left_on_it(tmp_path: Path) -> None:
    check_file_system(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_so_is_one_in_memory(tmp_path: Path) -> None:
    assert on_small_disk(tmp_path / "disk", lambda small: check_file_system(small.folder)) == "None"


MISSING: dict[str, tuple[Refusals, str]] = {
    "links": (Refusals({disk.SYMLINK: errno.EPERM}), "symbolic links (symlink: Operation not permitted); no renaming"),
    "mmap": (Refusals(no_mmap=True), "memory mapping (mmap of a file for reading: No such device). Choose"),
    "over links": (
        Refusals(over=stat.S_ISLNK),
        "renaming over a symbolic link (rename of a link over another: File exists). Choose",
    ),
    "over files": (Refusals(over=stat.S_ISREG), "renaming over a file (rename of a file over another: File exists)."),
    "renaming": (
        Refusals({disk.RENAME: errno.EPERM, disk.RENAME2: errno.EPERM}),
        "renaming of folders (rename of a folder that is not empty: Operation not permitted); no renaming",
    ),
    "fsync of folders": (
        Refusals({disk.FSYNCDIR: errno.EINVAL}),
        "fsync of folders (fsync of a folder: Invalid argument). Choose",
    ),
    "fsync": (Refusals({disk.FSYNC: errno.EINVAL}), "fsync of files (fsync of a file: Invalid argument). Choose"),
    "locks": (
        Refusals({disk.SETLK: errno.ENOLCK, disk.SETLKW: errno.ENOLCK}),
        "locks (flock of a file that is locked: No locks available). Choose",
    ),
    "locks that lock nothing": (
        Refusals(ignored={disk.SETLK}),
        "locks (flock of a file that is locked: it had no effect). Choose",
    ),
    "times": (Refusals(ignored={disk.SETATTR}), "modification times (utime of an open file: it had no effect). Choose"),
}


@pytest.mark.parametrize(("refusals", "message"), MISSING.values(), ids=MISSING)
def test_what_a_file_system_lacks_is_said_and_nothing_stays(tmp_path: Path, refusals: Refusals, message: str) -> None:
    said, left = on_refusing_disk(tmp_path, refusals, check_file_system)
    assert said.startswith(f"RootError: {tmp_path / 'disk'}: the file system here cannot hold a root or a cache: no ")
    assert f"no {message}" in said
    assert "Choose a folder on a local disk" in said
    assert left == []


def test_the_disk_of_these_tests_is_accepted_where_it_lacks_nothing_and_holds_a_root(tmp_path: Path) -> None:
    def use(folder: Path) -> object:
        check_file_system(folder)
        root = Root(folder / "root")
        root.claim("sample", "a" * 64)
        return [build(root, make_plan()).reused for _ in range(2)]

    said, left = on_refusing_disk(tmp_path, Refusals(), use)
    assert said == "[False, True]"
    assert f"root/{LOCATION}" in left


def test_a_root_is_refused_before_it_is_one(tmp_path: Path) -> None:
    def claim(folder: Path) -> None:
        Root(folder / "root").claim("sample", "a" * 64)

    said, left = on_refusing_disk(tmp_path, Refusals({disk.SYMLINK: errno.EPERM}), claim)
    assert said.startswith(f"RootError: {tmp_path / 'disk/root'}: the file system here cannot hold a root")
    assert left == ["root", "root/work", "root/work/lock"]


def test_where_there_are_no_locks_a_claim_says_so(tmp_path: Path) -> None:
    refusals = Refusals({disk.SETLK: errno.ENOSYS, disk.SETLKW: errno.ENOSYS})
    said, _ = on_refusing_disk(tmp_path, refusals, lambda folder: Root(folder).claim("sample", "a" * 64))
    assert said.startswith("ResourceError: ")
    assert "the file system has no locks (flock: Function not implemented). Mount it with locks" in said


def _refused(name: str) -> tuple[object, str]:
    owners: dict[str, object] = {"flock": fcntl, "mmap": mmap}
    return owners.get(name, os), name


CALLS = {
    "fsync": "no fsync of files",
    "replace": "no renaming over a file",
    "rename": "no renaming of folders",
    "symlink": "no symbolic links",
    "mmap": "no memory mapping",
    "flock": "no locks",
    "utime": "no modification times",
}


def refuse(code: int) -> Callable[..., object]:
    def call(*args: object, **kwargs: object) -> object:
        raise OSError(code, os.strerror(code))

    return call


@pytest.mark.parametrize("call", CALLS)
def test_a_refused_call_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    monkeypatch.setattr(*_refused(call), refuse(errno.EOPNOTSUPP))
    with pytest.raises(RootError, match=rf"{CALLS[call]} \(.*: Operation not supported\)"):
        check_file_system(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_failing_disk_is_no_lesser_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int) -> None:
    monkeypatch.setattr(*_refused(call), refuse(code))
    with pytest.raises(OSError, match=os.strerror(code)) as raised:
        check_file_system(tmp_path)
    assert not isinstance(raised.value, ResourceError)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_check_left_goes_and_what_is_not_its_own_stays(tmp_path: Path) -> None:
    (tmp_path / ".probe.01234567").mkdir()
    (tmp_path / ".probe.01234567" / "a").touch()
    (tmp_path / "probe").touch()
    check_file_system(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["probe"]


def test_a_root_is_checked_once(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    root.claim("sample", "a" * 64)
    monkeypatch.setattr(os, "symlink", refuse(errno.EPERM))
    Root(root.path).claim("sample", "a" * 64)
