"""Writing files, reading plain ones, and naming what cannot be read."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from genolewm_assets.errors import CorruptResourceError, InputError, MissingResourceError, ResourceError
from genolewm_assets.store.files.atomic import make_directories, write_atomic
from genolewm_assets.store.files.plain import open_plain, parse_json, read_blocks, read_plain
from genolewm_assets.store.files.walk import reading
from genolewm_assets_tests.rows import each_row

pytestmark = pytest.mark.disk


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_write_atomic_keeps_the_old_file_when_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_atomic(tmp_path / "a", b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(tmp_path / "a", b"new")
    assert contents(tmp_path) == {"a": b"old"}


def test_make_directories_syncs_new_entries_and_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    make_directories(tmp_path / "a" / "b")
    # Whoever made the last one that was there may have been killed before it synced the entry.
    wanted = [path.stat().st_ino for path in (tmp_path.parent, tmp_path, tmp_path / "a")]
    assert synced == wanted
    make_directories(tmp_path / "a" / "b")
    assert synced == [*wanted, wanted[-1]]


def test_a_plain_file_is_read(tmp_path: Path) -> None:
    data = bytes(range(256)) * 10_000
    (tmp_path / "a").write_bytes(data)
    assert read_plain(tmp_path / "a") == data
    assert len(list(read_blocks(tmp_path / "a"))) == 3
    with open_plain(tmp_path / "a") as handle:
        assert not os.get_inheritable(handle.fileno())


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (os.mkfifo, "is not a regular file"),
        (Path.mkdir, "is not a regular file"),
        (lambda path: path.symlink_to("real"), "is a symlink, not a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "is a symlink, not a regular file"),
        (lambda path: path.symlink_to(path.name), "is a symlink, not a regular file"),
    ],
)
def test_nothing_else_is_followed_or_waited_for(tmp_path: Path, make: object, problem: str) -> None:
    (tmp_path / "real").write_bytes(b"secret")
    make(tmp_path / "a")  # type: ignore[operator]
    with pytest.raises(CorruptResourceError, match=problem):
        read_plain(tmp_path / "a")


def test_a_device_is_not_read() -> None:
    with pytest.raises(CorruptResourceError, match="is not a regular file"):
        read_plain(Path("/dev/zero"))


def test_what_is_not_there_is_told_from_what_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"")
    for path in (tmp_path / "none", tmp_path / "a" / "none"):
        with pytest.raises(MissingResourceError, match="cannot be read"):
            open_plain(path)

    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(ResourceError, match=r"cannot be read \(Too many open files") as raised:
        open_plain(tmp_path / "a")
    assert not isinstance(raised.value, MissingResourceError)


def test_a_file_that_fails_while_it_is_read() -> None:
    """The memory of a process has nothing at 0: a regular file that says EIO."""
    with pytest.raises(ResourceError, match=r"cannot be read \(Input/output error"):
        read_plain(Path("/proc/self/mem"))


@each_row("data", [b"", b"{", b"\xff", b"[" * 100_000 + b"]" * 100_000, b"9" * 10_000])
def test_what_is_no_json(data: bytes) -> None:
    with pytest.raises(CorruptResourceError, match=r"x\.json: is not JSON"):
        parse_json(data, "x.json")


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
