"""A package is hashed once for each machine; changed files are found; missing and other caches are named."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from genolewm_assets.errors import CorruptResourceError, MissingResourceError, RootError
from genolewm_assets.own_caches import folders
from genolewm_assets.packages import verified
from genolewm_assets.packages.reader import open_package, open_tables, verify_package
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets_tests.worlds.lewm.package_world import (
    GENOME_DIGEST,
    make_cache,
    make_caches,
    make_sources,
    publish,
)
from genolewm_assets_tests.worlds.store.damages import keep_time

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


def test_a_package_is_hashed_once_unless_it_is_asked_for(hashed: list[Path], copy: Path) -> None:
    first = open_tables(copy, allow_unaudited=True)
    assert open_tables(copy, allow_unaudited=True) == first
    assert hashed == [copy]
    open_tables(copy, contents="hash", allow_unaudited=True)
    assert hashed == [copy, copy]


def test_a_record_is_the_users_own_whatever_the_umask(hashed: list[Path], copy: Path, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        open_tables(copy, allow_unaudited=True)
        open_tables(copy, allow_unaudited=True)
    finally:
        os.umask(before)
    assert hashed == [copy]
    (record,) = (tmp_path / "cache/verified").glob("*.json")
    assert stat.S_IMODE(record.stat().st_mode) == 0o600


@pytest.mark.parametrize("name", [TABLE, "data/train-00000-of-00001.parquet", "package.json", "README.md"])
def test_a_changed_file_is_found_though_size_and_mtime_are_equal(hashed: list[Path], copy: Path, name: str) -> None:
    open_tables(copy, allow_unaudited=True)
    keep_time(copy / name)
    for _ in range(2):  # a damaged package is never recorded
        with pytest.raises(CorruptResourceError, match=name):
            open_tables(copy, allow_unaudited=True)


def test_an_added_file_is_found(hashed: list[Path], copy: Path) -> None:
    open_tables(copy, allow_unaudited=True)
    (copy / "data/more.parquet").write_bytes(b"")
    with pytest.raises(CorruptResourceError, match=r"more\.parquet"):
        open_tables(copy, allow_unaudited=True)


def test_another_copy_at_the_same_place_is_hashed(hashed: list[Path], copy: Path, tmp_path: Path) -> None:
    open_tables(copy, allow_unaudited=True)
    shutil.copytree(copy, tmp_path / "other")
    shutil.rmtree(copy)
    (tmp_path / "other").rename(copy)
    open_tables(copy, allow_unaudited=True)
    assert hashed == [copy, copy]


def test_a_file_that_may_change_is_unrecorded(hashed: list[Path], copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = max(path.stat().st_ctime_ns for path in copy.rglob("*")) + 10**9
    monkeypatch.setattr(verified.time, "time_ns", lambda: now_ns)
    open_tables(copy, allow_unaudited=True)
    open_tables(copy, allow_unaudited=True)
    assert hashed == [copy, copy]


def test_without_a_folder_for_records_every_opening_hashes(
    hashed: list[Path], copy: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GENOLEWM_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    open_tables(copy, allow_unaudited=True)
    open_tables(copy, allow_unaudited=True)
    assert hashed == [copy, copy]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"directory": 1, "files": {}}'])
def test_a_damaged_record_counts_for_nothing(hashed: list[Path], copy: Path, tmp_path: Path, content: bytes) -> None:
    open_tables(copy, allow_unaudited=True)
    (record,) = (tmp_path / "cache/verified").glob("*.json")
    record.write_bytes(content)
    open_tables(copy, allow_unaudited=True)
    open_tables(copy, allow_unaudited=True)
    assert hashed == [copy, copy]


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
    open_tables(copy, allow_unaudited=True)
    (record,) = (tmp_path / "cache/verified").glob("*.json")
    keep_time(copy / TABLE)
    forge(record, copy)
    open_tables(copy, allow_unaudited=True)
    if loose is None:
        monkeypatch.setattr(folders.os, "geteuid", lambda: os.getuid() + 1)
    else:
        path = record if loose.endswith("record") else tmp_path / loose
        path.chmod(path.stat().st_mode | 0o002)
    with pytest.raises(CorruptResourceError, match=TABLE):
        open_tables(copy, allow_unaudited=True)


AT_ONCE = """
import sys, time
from pathlib import Path
from genolewm_assets.packages import verified
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


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = Root(tmp_path / "root")
    root.claim("tiny", GENOME_DIGEST)
    sources = make_sources()
    publish(root, replace(sources, caches=make_caches(root, sources)))
    return root


def only_package(root: Root) -> Path:
    return next((root.path / "packages").glob("*/sample"))


def cache_link(root: Root, source: str) -> Path:
    caches = open_package(only_package(root)).info.caches
    return root.path / next(ref.path for ref in caches if ref.source == source)


def test_a_missing_cache_is_named(root):
    link = cache_link(root, "chr17")
    shutil.rmtree(link.resolve())
    with pytest.raises(MissingResourceError, match=rf"{link.name} \(cache of chr17\): the cache .* is missing"):
        open_package(only_package(root))
    assert [(f.location, f.file) for f in verify_package(only_package(root))] == [(f"embeddings/{link.name}", None)]


def test_a_cache_published_since_is_not_the_one_of_the_package(root):
    link = cache_link(root, "chr17")
    before = open_package(only_package(root)).caches["chr17"]
    make_cache(root, "chr17", 36, key=link.name, content=b"others")
    assert link.resolve() != before
    assert open_package(only_package(root)).caches["chr17"] == before  # pinned by its digest
    assert verify_package(only_package(root)) == []
    shutil.rmtree(before)
    with pytest.raises(CorruptResourceError, match="a different cache is stored at the path"):
        open_package(only_package(root))
    assert [f.file for f in verify_package(only_package(root))] == ["manifest.json"]


def test_a_cache_of_another_size_is_refused_and_a_flipped_bit_is_found_by_verify(root):
    path = cache_link(root, "mrna_evo2") / "states.bin"
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    with pytest.raises(CorruptResourceError, match=r"states\.bin: size differs"):
        open_package(only_package(root))
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    open_package(only_package(root))  # sizes only: each batch has its own checksum
    found = [(f.location, f.file) for f in verify_package(only_package(root))]
    assert found == [(f"embeddings/{path.parent.name}", "states.bin")]
    path.write_bytes(data)
    (path.parent / "stray").write_bytes(b"")
    assert [f.file for f in verify_package(only_package(root))] == ["stray"]


def test_a_root_of_another_genome_is_refused(root, tmp_path):
    other = Root(tmp_path / "other")
    other.claim("tiny", "f" * 64)
    for call in (open_package, verify_package):
        with pytest.raises(RootError, match="the root belongs to another genome than the package"):
            call(only_package(root), cache_root=other.path)


def test_a_copied_package_needs_to_be_told_where_its_caches_are(root, tmp_path):
    copy = tmp_path / "elsewhere" / "package"
    shutil.copytree(only_package(root).resolve(), copy)
    with pytest.raises(MissingResourceError, match="no root contains the package"):
        open_package(copy, allow_unaudited=True)
    assert len(verify_package(copy)) == 7  # one finding for every cache
    assert open_package(copy, cache_root=root.path).caches == open_package(only_package(root)).caches
    assert verify_package(copy, cache_root=root.path) == []


def test_a_path_out_of_the_root_is_refused(tmp_path):
    root = Root(tmp_path / "root")
    root.claim("tiny", GENOME_DIGEST)
    ref = make_cache(root, "chr17", 36)
    publish(root, make_sources(caches=(replace(ref, path="embeddings/../../x"),)))
    with pytest.raises(CorruptResourceError, match="not allowed"):
        open_package(only_package(root))
