"""A file that was hashed is known by its identity; decision 101 says what is found so, and this module proves it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.progress import NO_PROGRESS, ByteCount
from genolewm_assets.store.artefacts.build import build
from genolewm_assets.store.artefacts.inputs import open_input
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.artefacts.verify import verify_root
from genolewm_assets.store.files import digests as module
from genolewm_assets.store.files.digests import FileDigests, measure_file
from genolewm_assets_tests.heard import Heard
from genolewm_assets_tests.worlds.store.damages import DAMAGES, read_table
from genolewm_assets_tests.worlds.store.plans import ARTEFACT, CONTENT, LOCATION, make_plan

NAME = "variants.bin"
HOUR_NS = 3_600 * 10**9


@pytest.fixture(autouse=True)
def an_hour_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every file be older than the steps of any clock."""
    now_ns = module.time.time_ns
    monkeypatch.setattr(module.time, "time_ns", lambda: now_ns() + HOUR_NS)


def hashed_by_opening(root: Root) -> int:
    open_input(root, ARTEFACT, LOCATION, progress=(heard := Heard()))
    return max((done for done, _, _ in heard), default=0)


def is_found_by_a_build(root: Root) -> bool:
    try:
        open_input(root, ARTEFACT, LOCATION)
    except CorruptResourceError as err:
        assert NAME in str(err)
        return True
    return False


LEVELS: dict[str, Callable[[Root], bool]] = {
    "input of a build": is_found_by_a_build,
    "materialised again": lambda root: not build(root, make_plan()).reused,
    "`verify`, `verify_all`": lambda root: any(finding.is_fault for finding in verify_root(root)),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("level", LEVELS)
def test_what_happened_to_a_file_is_found_where_the_decision_says(root: Root, damage: str, level: str) -> None:
    root.claim("tiny", "0" * 64)
    published = build(root, make_plan())
    assert not is_found_by_a_build(root)
    DAMAGES[damage](published.file(NAME))
    assert LEVELS[level](root) is read_table()[damage][level]


def test_an_input_is_hashed_when_it_is_published_and_never_again(root: Root) -> None:
    build(root, make_plan())
    assert hashed_by_opening(root) == 0


def test_a_reader_of_few_files_leaves_what_is_recorded_of_the_others(root: Root) -> None:
    directory = build(root, make_plan()).directory
    for asked in ((NAME, "manifest.json"), (NAME,)):
        digests = FileDigests(directory)
        for name in asked:
            digests.of(name, ByteCount(NO_PROGRESS, 0))
        digests.keep(directory)
        assert FileDigests(directory).known("manifest.json")


def test_a_copied_root_is_hashed_once(root: Root, tmp_path: Path) -> None:
    build(root, make_plan())
    shutil.copytree(root.path, tmp_path / "copy", symlinks=True)
    copy = Root(tmp_path / "copy")
    assert hashed_by_opening(copy) == sum(map(len, CONTENT.values()))
    assert hashed_by_opening(copy) == 0


def test_a_setting_hashes_always(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    build(root, make_plan())
    monkeypatch.setenv("GENOLEWM_HASHED", "all")
    assert hashed_by_opening(root) == sum(map(len, CONTENT.values()))


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"variants.bin": 1}', b'{"variants.bin": ["", 1]}', b'{"a": [1, [], {}]}']
)
def test_a_damaged_record_counts_for_nothing(root: Root, content: bytes) -> None:
    directory = build(root, make_plan()).directory
    directory.with_name(f"{directory.name}.digests").write_bytes(content)
    assert hashed_by_opening(root) == sum(map(len, CONTENT.values()))
    assert hashed_by_opening(root) == 0


@pytest.mark.parametrize(
    ("times_ns", "age_ns", "known"),
    [
        (1_000_000_007, 40_000_000, False),
        (1_000_000_007, 60_000_000, True),
        (1_002_000_000, 1_900_000_000, False),
        (1_002_000_000, 2_100_000_000, True),
    ],
)
def test_a_file_that_may_change_under_the_same_times_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times_ns: int, age_ns: int, known: bool
) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    status = SimpleNamespace(st_mode=0o100644, st_ino=1, st_size=3, st_mtime_ns=times_ns, st_ctime_ns=times_ns)
    monkeypatch.setattr(module.os, "fstat", lambda _: status)
    monkeypatch.setattr(module.time, "time_ns", lambda: times_ns + age_ns)
    assert (measure_file(tmp_path / "file", ByteCount(NO_PROGRESS, 0)).identity is not None) is known


def test_a_file_that_changes_while_it_is_hashed_is_not_known(tmp_path: Path) -> None:
    published = tmp_path / ".gen" / "a.0123456789ab"
    published.mkdir(parents=True)
    (published / "file").write_bytes(bytes(3 << 20))

    class Meddling(ByteCount):
        def add(self, _: int) -> None:
            (published / "file").touch()

    digests = FileDigests(published)
    assert digests.of("file", Meddling(NO_PROGRESS, 0)).identity is None
    digests.keep(published)
    assert list(published.parent.iterdir()) == [published]
