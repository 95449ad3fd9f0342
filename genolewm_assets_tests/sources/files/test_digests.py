"""Digests of local files: read and recorded, or known by size and time, read where these are others."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from genolewm_assets.sources.files import digests as digests_module
from genolewm_assets.sources.files.digests import KnownDigests, RecordedDigests

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
    monkeypatch.delattr(hashlib, "new")
    assert KnownDigests(folder).of(file, "md5") == MD5
    assert KnownDigests(folder).of(file, "sha256") == hashlib.sha256(CONTENT).hexdigest()


def test_another_time_is_settled_by_reading_once(file: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    RecordedDigests(folder).of(file, "md5")
    os.utime(file, ns=(0, 10**18))
    assert KnownDigests(folder).of(file, "md5") == MD5
    with monkeypatch.context() as patch:
        patch.delattr(hashlib, "new")
        assert KnownDigests(folder).of(file, "md5") == MD5
    file.write_bytes(b"two\n")
    assert KnownDigests(folder).of(file, "md5") == hashlib.md5(b"two\n").hexdigest()


def test_another_size_is_no_digest(file: Path, folder: Path) -> None:
    RecordedDigests(folder).of(file, "md5")
    file.write_bytes(CONTENT + CONTENT)
    assert KnownDigests(folder).of(file, "md5").startswith("unread: 8 bytes (then 4), modified 20")
    RecordedDigests(folder).of(file, "md5")
    assert KnownDigests(folder).of(file, "md5") == hashlib.md5(CONTENT + CONTENT).hexdigest()


@pytest.mark.parametrize("record", [None, b"{"])
def test_what_has_no_record_is_read_and_recorded(file: Path, folder: Path, record: bytes | None) -> None:
    RecordedDigests(folder).of(file, "md5")
    (where,) = folder.iterdir()
    content = where.read_bytes()
    where.unlink() if record is None else where.write_bytes(record)
    assert KnownDigests(folder).of(file, "md5") == MD5
    assert where.read_bytes() == content


def test_where_nothing_can_be_recorded_a_survey_reads_once_and_says_so(
    file: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    digests_module._say_once.cache_clear()
    monkeypatch.setattr(digests_module.os, "geteuid", lambda: file.stat().st_uid + 1)
    known = KnownDigests(folder)
    assert known.of(file, "md5") == MD5
    monkeypatch.delattr(hashlib, "new")
    assert known.of(file, "md5") == MD5
    assert not folder.exists()
    (said,) = caplog.messages
    assert said.startswith(f"{folder} cannot be written, or is another user's")


def test_a_time_in_whole_seconds_that_is_still_running_is_not_recorded(file: Path, folder: Path) -> None:
    second = 10**9
    now = file.stat().st_mtime_ns // second * second
    os.utime(file, ns=(now, now))
    RecordedDigests(folder).of(file, "md5")
    assert not folder.exists()
    os.utime(file, ns=(now - 3600 * second, now - 3600 * second))
    RecordedDigests(folder).of(file, "md5")
    assert KnownDigests(folder).of(file, "md5") == MD5


def test_a_file_that_changes_then_is_not_recorded(file: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = hashlib.new

    def changing(*arguments: Any, **options: Any) -> Any:
        file.write_bytes(b"two\n")
        return real(*arguments, **options)

    monkeypatch.setattr(hashlib, "new", changing)
    assert RecordedDigests(folder).of(file, "md5") == hashlib.md5(b"two\n").hexdigest()
    assert not folder.exists()


def test_records_move_with_root_and_sources(file: Path, folder: Path, tmp_path: Path) -> None:
    RecordedDigests(folder).of(file, "md5")
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("root", "sources"):
        (tmp_path / name).rename(moved / name)
    assert KnownDigests(moved / "root/digests").of(moved / "sources/file.txt", "md5") == MD5
