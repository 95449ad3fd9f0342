"""A package is hashed once for each machine; a file that changed since is found all the same."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.lewm.packages import verified
from genolewm_assets.lewm.packages.reader import open_tables
from genolewm_assets.own_caches import folders

TABLE = "variants/test.parquet"
HOUR_NS = 3_600 * 10**9


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[Path]]:
    """Return the packages that were hashed, in a machine that has hashed none; its clock is an hour ahead."""
    seen: list[Path] = []
    real = verified.find_package_damage

    def watched(directory: Path, *arguments: object) -> object:
        seen.append(directory)
        return real(directory, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(verified, "find_package_damage", watched)
    monkeypatch.setenv("GENOLEWM_CACHE", str(tmp_path / "cache"))
    now_ns = time.time_ns
    monkeypatch.setattr(verified.time, "time_ns", lambda: now_ns() + HOUR_NS)
    return seen


@pytest.fixture
def copy(package, tmp_path) -> Path:
    return Path(shutil.copytree(package.directory, tmp_path / "copy"))


def flip_byte(path: Path) -> None:
    """Flip one byte of a file, and restore its modification time."""
    before, data = path.stat(), bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_package_is_hashed_once(hashed: list[Path], copy: Path) -> None:
    first = open_tables(copy)
    assert open_tables(copy) == first
    assert hashed == [copy]


def test_hash_forces_it(hashed: list[Path], copy: Path) -> None:
    open_tables(copy)
    open_tables(copy, contents="hash")
    assert hashed == [copy, copy]


@pytest.mark.parametrize("name", [TABLE, "data/train-00000-of-00001.parquet", "package.json", "README.md"])
def test_a_changed_file_is_found_though_size_and_modification_time_are_equal(
    hashed: list[Path], copy: Path, name: str
) -> None:
    open_tables(copy)
    flip_byte(copy / name)
    for _ in range(2):  # a damaged package is never recorded
        with pytest.raises(CorruptResourceError, match=name):
            open_tables(copy)


def test_an_added_and_a_missing_file_are_found(hashed: list[Path], copy: Path) -> None:
    open_tables(copy)
    (copy / "data/more.parquet").write_bytes(b"")
    with pytest.raises(CorruptResourceError, match=r"more\.parquet"):
        open_tables(copy)
    (copy / "data/more.parquet").unlink()
    open_tables(copy)
    (copy / TABLE).unlink()
    with pytest.raises(CorruptResourceError, match="file is missing"):
        open_tables(copy)


def test_another_copy_at_the_same_place_is_hashed(hashed: list[Path], copy: Path, tmp_path: Path) -> None:
    open_tables(copy)
    shutil.copytree(copy, tmp_path / "other")
    shutil.rmtree(copy)
    (tmp_path / "other").rename(copy)
    open_tables(copy)
    assert hashed == [copy, copy]


def test_a_file_that_may_still_change_is_not_recorded(
    hashed: list[Path], copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns = max(path.stat().st_ctime_ns for path in copy.rglob("*")) + 10**9
    monkeypatch.setattr(verified.time, "time_ns", lambda: now_ns)
    open_tables(copy)
    open_tables(copy)
    assert hashed == [copy, copy]


def test_without_a_folder_for_records_every_opening_hashes(
    hashed: list[Path], copy: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GENOLEWM_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    open_tables(copy)
    open_tables(copy)
    assert hashed == [copy, copy]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"directory": 1, "files": {}}'])
def test_a_damaged_record_counts_for_nothing(hashed: list[Path], copy: Path, tmp_path: Path, content: bytes) -> None:
    open_tables(copy)
    (record,) = (tmp_path / "cache/verified").glob("*.json")
    record.write_bytes(content)
    open_tables(copy)
    open_tables(copy)
    assert hashed == [copy, copy]


@pytest.mark.parametrize("umask", [0o022, 0o002, 0])
def test_a_record_is_the_users_own_whatever_the_umask(hashed: list[Path], copy: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        open_tables(copy)
        open_tables(copy)
    finally:
        os.umask(before)
    assert hashed == [copy]


def forge(record: Path, package: Path) -> None:
    """Let a record state the files of a package as they are."""
    stamps = {
        path: [at.st_dev, at.st_ino, at.st_size, at.st_mtime_ns, at.st_ctime_ns]
        for path in json.loads(record.read_bytes())["files"]
        for at in [(package / path).lstat()]
    }
    record.write_text(json.dumps({"directory": str(package), "files": stamps}))


@pytest.mark.parametrize("loose", ["cache", "cache/verified", "cache/verified/record", None])
def test_a_record_that_others_can_have_written_is_not_believed(
    hashed: list[Path], copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loose: str | None
) -> None:
    open_tables(copy)
    (record,) = (tmp_path / "cache/verified").glob("*.json")
    flip_byte(copy / TABLE)
    forge(record, copy)
    open_tables(copy)
    if loose is None:
        monkeypatch.setattr(folders.os, "geteuid", lambda: os.getuid() + 1)
    else:
        path = record if loose.endswith("record") else tmp_path / loose
        path.chmod(path.stat().st_mode | 0o002)
    with pytest.raises(CorruptResourceError, match=TABLE):
        open_tables(copy)


AT_ONCE = """
import sys, time
from pathlib import Path
from genolewm_assets.lewm.packages import verified
real, now_ns = verified.find_package_damage, time.time_ns
def watched(*arguments):
    print("hashed", flush=True)
    time.sleep(1)
    return real(*arguments)
verified.find_package_damage = watched
verified.time.time_ns = lambda: now_ns() + 3_600 * 10**9
assert verified.find_damage_once(Path(sys.argv[1])) == []
"""


def test_of_processes_that_open_a_package_at_once_one_hashes_it(copy: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "GENOLEWM_CACHE": str(tmp_path / "cache")}
    words = [sys.executable, "-c", AT_ONCE, str(copy)]
    ranks = [subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = [rank.communicate(timeout=120)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0, 0]
    assert sorted(said) == ["", "", "hashed\n"]
