"""Digests of local files: read and recorded, or known by size and time without reading."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from genolewm_assets.errors import MissingResourceError
from genolewm_assets.sources.files.digests import KnownDigests, RecordedDigests
from genolewm_assets.sources.files.source import SourceFile

CONTENT = b"one\n"
MD5 = hashlib.md5(CONTENT).hexdigest()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sources" / "file.txt"
    path.parent.mkdir()
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "root" / "digests"


def test_what_was_read_is_known(file: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert RecordedDigests(folder).of(file, "md5") == MD5
    assert RecordedDigests(folder).of(file, "sha256") == hashlib.sha256(CONTENT).hexdigest()
    monkeypatch.delattr(hashlib, "file_digest")
    assert KnownDigests(folder).of(file, "md5") == MD5
    assert KnownDigests(folder).of(file, "sha256") == hashlib.sha256(CONTENT).hexdigest()


def test_another_size_or_time_is_no_digest(file: Path, folder: Path) -> None:
    RecordedDigests(folder).of(file, "md5")
    status = file.stat()
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert KnownDigests(folder).of(file, "md5").startswith("unread: 4 bytes (then 4), modified 20")
    file.write_bytes(CONTENT + CONTENT)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert KnownDigests(folder).of(file, "md5").startswith("unread: 8 bytes (then 4), modified 20")
    RecordedDigests(folder).of(file, "md5")
    assert KnownDigests(folder).of(file, "md5") == hashlib.md5(CONTENT + CONTENT).hexdigest()


def test_what_was_never_read_is_not_known(file: Path, folder: Path) -> None:
    with pytest.raises(MissingResourceError, match="no build of this root has recorded its content"):
        KnownDigests(folder).of(file, "md5")
    RecordedDigests(folder).of(file, "md5")
    with pytest.raises(MissingResourceError):
        KnownDigests(folder).of(file, "sha256")
    (record,) = folder.iterdir()
    record.write_bytes(b"{")
    with pytest.raises(MissingResourceError):
        KnownDigests(folder).of(file, "md5")


def test_a_time_in_whole_seconds_that_is_still_running_is_not_recorded(file: Path, folder: Path) -> None:
    second = 10**9
    now = file.stat().st_mtime_ns // second * second
    os.utime(file, ns=(now, now))
    RecordedDigests(folder).of(file, "md5")
    assert not folder.exists()
    os.utime(file, ns=(now - 3600 * second, now - 3600 * second))
    RecordedDigests(folder).of(file, "md5")
    assert KnownDigests(folder).of(file, "md5") == MD5


def test_a_file_that_changes_while_it_is_read_is_not_recorded(
    file: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = hashlib.file_digest

    def changing(handle: object, algorithm: str) -> object:
        found = real(handle, algorithm)  # type: ignore[arg-type]
        file.write_bytes(b"two\n")
        return found

    monkeypatch.setattr(hashlib, "file_digest", changing)
    assert RecordedDigests(folder).of(file, "md5") == MD5
    assert not folder.exists()


def test_a_folder_that_cannot_be_written_is_no_error(file: Path, tmp_path: Path) -> None:
    (tmp_path / "occupied").write_bytes(b"")
    assert RecordedDigests(tmp_path / "occupied" / "digests").of(file, "md5") == MD5


def test_records_move_with_root_and_sources(file: Path, folder: Path, tmp_path: Path) -> None:
    RecordedDigests(folder).of(file, "md5")
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("root", "sources"):
        (tmp_path / name).rename(moved / name)
    assert KnownDigests(moved / "root/digests").of(moved / "sources/file.txt", "md5") == MD5


def test_a_source_takes_its_digest_from_there(file: Path, folder: Path, tmp_path: Path) -> None:
    read = SourceFile(str(file), None, tmp_path, digests=RecordedDigests(folder))
    known = SourceFile(str(file), None, tmp_path, digests=KnownDigests(folder))
    assert read.identity() == known.identity() == {"file": "file.txt", "md5": MD5}
