"""The index over window hashes: every row of every cache, current or said not to be, nothing left out in silence."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from genolewm_assets.store.arrays.row_index import RowAddress

from genolewm_assets.errors import BusyError, CorruptResourceError, InputError, MissingResourceError
from genolewm_assets.states.index import (
    CACHE_INDEX,
    check_cache_index,
    open_cache_index,
    parse_window_hash,
    refresh_cache_index,
)
from genolewm_assets.store.artefacts.published import Published
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.artefacts.verify import verify_root
from genolewm_assets_tests.faults.kill_points import KillPoints
from genolewm_assets_tests.faults.killing import outcome, start
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.lewm.cache_world import make_root, publish_cache, publish_windows
from genolewm_assets_tests.worlds.lewm.package_world import make_sources
from genolewm_assets_tests.worlds.store.plans import flip

Pairs = dict[str, tuple[Published, Published]]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Pairs]:
    root, pairs = make_root(tmp_path_factory.mktemp("built") / "root")
    refresh_cache_index(root)
    return root.path, pairs


@pytest.fixture
def root(built: tuple[Path, Pairs], tmp_path: Path) -> Root:
    """Return a root of the test's own, with a current index."""
    shutil.copytree(built[0], tmp_path / "root", symlinks=True)
    return Root(tmp_path / "root", lock_wait_s=0.2)


def location(published: Published) -> str:
    return f"embeddings/{published.directory.name.partition('.')[0]}"


def places(pairs: Iterable[tuple[Published, Published]]) -> dict[bytes, list[RowAddress]]:
    """Return what the tables and manifests say: all rows of a hash, by cache and row."""
    found = defaultdict(list)
    for windows, cache in sorted(pairs, key=lambda pair: location(pair[1])):
        for row, digest in enumerate(pq.ParquetFile(windows.file("windows.parquet")).read()["window_hash"].to_pylist()):
            found[digest].append(RowAddress(location(cache), row))
    return dict(found)


def test_every_row_of_every_cache_is_found(built: tuple[Path, Pairs]) -> None:
    root, pairs = Root(built[0]), built[1]
    wanted = places(pairs.values())
    with open_cache_index(root) as index:
        assert index.find_many(wanted) == list(wanted.values())
        assert index.find(next(iter(wanted))[:16]) == next(iter(wanted.values()))
        assert {store.label for store in index.stores} == {str(cache.artefact) for _, cache in pairs.values()}
        assert {store.manifest_sha256 for store in index.stores} == {c.manifest.sha256 for _, c in pairs.values()}
    report = refresh_cache_index(root)
    assert (report.rebuilt, len(report.caches), report.hashes, report.rows) == (False, 7, len(wanted), 88)
    assert report.omitted == {}
    assert check_cache_index(root) == report


def test_a_sequence_that_stands_at_several_places_has_all_its_rows(root: Root, built: tuple[Path, Pairs]) -> None:
    corpus = make_sources().corpus["mrna_evo2"]
    windows = publish_windows(root, "corpus/windows", "mrna_evo2", corpus.take([0, 1, 0, 0, 5]))
    cache = publish_cache(root, windows)
    assert refresh_cache_index(root).rebuilt
    digest = corpus["window_hash"][0].as_py()
    older = location(built[1]["mrna_evo2"][1])
    with open_cache_index(root) as index:
        # The cache of the former table is still there, and its rows as true as before.
        wanted = [*(RowAddress(location(cache), row) for row in (0, 2, 3)), RowAddress(older, 0)]
        assert index.find(digest) == sorted(wanted)


def test_an_index_that_is_out_of_date_names_the_caches(root: Root, built: tuple[Path, Pairs]) -> None:
    windows, cache = built[1]["chr20"]
    others = {name: pair for name, pair in built[1].items() if name != "chr20"}
    # Replaced by a build of another code version: same place, another manifest.
    publish_cache(root, windows, code_version="2")
    with pytest.raises(CorruptResourceError, match=rf"{location(cache)} \(embeddings/cache\[chr20\]\) was replaced\."):
        open_cache_index(root)
    (root.path / location(cache)).unlink()
    with pytest.raises(CorruptResourceError, match=f"{location(cache)} is covered but no longer exists"):
        open_cache_index(root)
    assert refresh_cache_index(root).rows == sum(map(len, places(others.values()).values()))
    publish_cache(root, windows)
    with pytest.raises(CorruptResourceError, match=r"\[chr20\]\) is not covered: published since. Make it again: geno"):
        open_cache_index(root)
    for link in (root.path / "embeddings").glob("[!.]*"):
        link.unlink()
    with pytest.raises(CorruptResourceError, match=r"; and 3 more\. Make it again: genolewm cache index"):
        open_cache_index(root)
    assert refresh_cache_index(root).rows == 0


def test_no_index_and_no_root(tmp_path: Path, root: Root) -> None:
    (root.path / CACHE_INDEX).unlink()
    with pytest.raises(MissingResourceError, match=r"there is no row index\. Make it again: genolewm cache index"):
        open_cache_index(root)
    for call in (open_cache_index, refresh_cache_index):
        with pytest.raises(MissingResourceError, match="not a root"):
            call(Root(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["root"]


def test_a_damaged_index_is_made_again(root: Root) -> None:
    path = root.path / CACHE_INDEX
    whole = path.read_bytes()
    os.truncate(path, len(whole) - 4096)
    with pytest.raises(CorruptResourceError, match=r"size differs: .* genolewm cache index"):
        open_cache_index(root)
    assert refresh_cache_index(root).rebuilt
    for statement, problem in (
        ("UPDATE addresses SET row = row + 1 WHERE row = 30", "a record differs from what was written"),
        ("DELETE FROM addresses WHERE row = 30", "rows are missing: expected 36, got 35"),
    ):
        with closing(sqlite3.connect(path, isolation_level=None)) as file:
            file.execute(statement)
        with pytest.raises(CorruptResourceError, match=f"{problem}.* genolewm cache index"):
            check_cache_index(root)
        assert not refresh_cache_index(root).rebuilt
        refresh_cache_index(root, force=True)
    assert check_cache_index(root).rows == 88


def break_link(root: Root, windows: Published, cache: Published) -> str:
    shutil.rmtree(root.path / "embeddings/.gen" / cache.directory.name)
    return "is gone"


def break_manifest(root: Root, windows: Published, cache: Published) -> str:
    path = root.path / "embeddings/.gen" / cache.directory.name / "manifest.json"
    path.write_text(path.read_text().replace('"code_version": "1"', '"code_version": "3"'))
    return "its manifest was altered"


def lose_table(root: Root, windows: Published, cache: Published) -> str:
    shutil.rmtree(root.path / "windows/tiny/.gen" / windows.directory.name)
    return "its window table is not in the root"


def alter_table(root: Root, windows: Published, cache: Published) -> str:
    flip(root.path / "windows/tiny/.gen" / windows.directory.name / "windows.parquet", 300)
    return "content differs"


@pytest.mark.parametrize("damage", [break_link, break_manifest, lose_table, alter_table])
def test_a_cache_that_cannot_be_covered_is_counted_with_its_reason(
    damage: Callable[[Root, Published, Published], str], root: Root, built: tuple[Path, Pairs]
) -> None:
    windows, cache = built[1]["chr21"]
    others = [pair for name, pair in built[1].items() if name != "chr21"]
    reason = damage(root, windows, cache)
    report = refresh_cache_index(root, force=True)
    assert len(report.caches) == 6
    assert list(report.omitted) == [location(cache)]
    assert reason in report.omitted[location(cache)]
    wanted = places(others)
    if damage is alter_table:
        # What is there now is not what the cache was made from; only another look at the table can tell.
        with pytest.raises(CorruptResourceError, match=r"is not covered: .*content differs"):
            open_cache_index(root)
        return
    assert not refresh_cache_index(root).rebuilt
    with open_cache_index(root) as index:
        assert index.find_many(wanted) == list(wanted.values())
        assert list(index.omitted) == [location(cache)]


def test_partitions_that_are_published_at_once_are_all_covered(root: Root, built: tuple[Path, Pairs]) -> None:
    """Each process publishes a cache and refreshes, as the runs of a backfill do."""
    for link in (root.path / "embeddings").glob("[!.]*"):
        link.unlink()
    patient = Root(root.path, lock_wait_s=60)

    def run(windows: Published) -> None:
        publish_cache(patient, windows)
        refresh_cache_index(patient)

    children = [start(lambda windows=windows: run(windows)) for windows, _ in built[1].values()]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 7
    assert (check_cache_index(root).rows, check_cache_index(root).omitted) == (88, {})
    assert verify_root(root) == []


def test_who_may_not_wait_is_told_that_another_is_at_it(root: Root) -> None:
    with root.lock(CACHE_INDEX):
        said = outcome(lambda: refresh_cache_index(root, wait_s=0))
    assert said.startswith(f"{BusyError.__name__}: {root.path / CACHE_INDEX}: ")


def test_killed_anywhere_it_says_that_it_is_out_of_date_or_is_not(
    root: Root, built: tuple[Path, Pairs], kill_points: KillPoints
) -> None:
    cache = built[1]["chr20"][1]
    link, target = root.path / location(cache), f".gen/{cache.directory.name}"
    states = set()

    def prepare() -> Callable[[], object]:
        link.unlink(missing_ok=True)
        refresh_cache_index(root)
        link.symlink_to(target)
        return lambda: refresh_cache_index(Root(root.path, lock_wait_s=0))

    for _ in kill_points(prepare, lambda: root.path):
        try:
            states.add(check_cache_index(root).rows)
        except CorruptResourceError as err:
            assert "is not covered: published since" in str(err)
            states.add("out of date")
        assert not any(finding.is_fault for finding in verify_root(root))
        assert refresh_cache_index(root).rows == 88
        assert root.leftovers(CACHE_INDEX) == []
    assert states == {"out of date", 88}


@each_row("text", ["", "ab" * 15, "ab" * 24, "ab" * 33, "xy" * 32, "0x" + "ab" * 31, "ab" * 32 + "\n"])
def test_what_is_no_window_hash(text: str) -> None:
    with pytest.raises(InputError, match="expected 64 hex digits, or the 32 of a window_id"):
        parse_window_hash(text)
