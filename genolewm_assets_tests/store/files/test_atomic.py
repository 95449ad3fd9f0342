from __future__ import annotations

import os
from pathlib import Path

import pytest

from genolewm_assets.store.files.atomic import make_directories, sync_tree, write_atomic

pytestmark = pytest.mark.disk


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_write_atomic_replaces_and_leaves_nothing_else(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a", b"old")
    write_atomic(tmp_path / "a", b"new")
    assert contents(tmp_path) == {"a": b"new"}


def test_write_atomic_keeps_the_old_file_when_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_atomic(tmp_path / "a", b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(tmp_path / "a", b"new")
    assert contents(tmp_path) == {"a": b"old"}


def test_sync_tree_reaches_every_file_and_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = tmp_path / "w"
    (work / "sub").mkdir(parents=True)
    for name in ("f", "sub/g", "sub/h"):
        (work / name).touch()
    (work / "away").symlink_to("/etc/hostname")
    os.mkfifo(work / "pipe")
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    sync_tree(work)
    expected = [work, *(path for path in work.rglob("*") if path.name not in {"away", "pipe"})]
    assert sorted(synced) == sorted(path.stat().st_ino for path in expected)


def test_make_directories_syncs_new_entries_and_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    make_directories(tmp_path / "a" / "b")
    # Whoever made the last one that was there may have been killed before it synced the entry.
    wanted = [path.stat().st_ino for path in (tmp_path.parent, tmp_path, tmp_path / "a")]
    assert synced == wanted
    make_directories(tmp_path / "a" / "b")
    assert synced == [*wanted, wanted[-1]]
