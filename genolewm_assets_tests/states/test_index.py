"""The index over window hashes: every row of every cache, current or said not to be, nothing left out in silence."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from genolewm_assets.errors import CorruptResourceError, InputError, MissingResourceError
from genolewm_assets.states.index import (
    RowAddress,
    check_cache_index,
    export_cache_index,
    find_index_faults,
    index_cache,
    open_cache_index,
    parse_window_hash,
    refresh_cache_index,
)
from genolewm_assets.store.artefacts.gc import collect_garbage
from genolewm_assets.store.artefacts.published import Published
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.artefacts.verify import FindingKind, verify_root
from genolewm_assets.store.files import remove_tree
from genolewm_assets_tests.faults.kill_points import KillPoints
from genolewm_assets_tests.faults.killing import start
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


def lookup_of(root: Root, cache: Published) -> Path:
    return root.path / "embeddings/.gen" / f"{cache.directory.name}.rows"


def test_every_row_of_every_cache_is_found(built: tuple[Path, Pairs]) -> None:
    root, pairs = Root(built[0]), built[1]
    wanted = places(pairs.values())
    index = open_cache_index(root)
    assert {digest: index.find(digest) for digest in wanted} == wanted
    assert index.find(next(iter(wanted))[:16]) == next(iter(wanted.values()))
    assert {cache.label for cache in index.lookups} == {str(cache.artefact) for _, cache in pairs.values()}
    assert {cache.manifest_sha256 for cache in index.lookups} == {c.manifest.sha256 for _, c in pairs.values()}
    report = refresh_cache_index(root)
    assert (report.made, len(report.caches), report.rows, report.omitted) == ((), 7, 88, {})
    assert check_cache_index(root) == report


def test_a_sequence_that_stands_at_several_places_has_all_its_rows(root: Root, built: tuple[Path, Pairs]) -> None:
    corpus = make_sources().corpus["mrna_evo2"]
    windows = publish_windows(root, "corpus/windows", "mrna_evo2", corpus.take([0, 1, 0, 0, 5]))
    cache = publish_cache(root, windows)
    assert index_cache(root, cache.directory)
    digest = corpus["window_hash"][0].as_py()
    older = location(built[1]["mrna_evo2"][1])
    # The cache of the former table is still there, and its rows as true as before.
    wanted = [*(RowAddress(location(cache), row) for row in (0, 2, 3)), RowAddress(older, 0)]
    assert open_cache_index(root).find(digest) == sorted(wanted)


def test_one_cache_is_indexed_without_a_look_at_the_others(root: Root, built: tuple[Path, Pairs]) -> None:
    cache = built[1]["chr21"][1]
    lookup = lookup_of(root, cache)
    wanted = lookup.read_bytes()
    lookup.unlink()
    others = [pair for name, pair in built[1].items() if name != "chr21"]
    for other_windows, other in others:
        lookup_of(root, other).write_bytes(b"")
        for published in (other_windows, other):
            remove_tree(root.path / published.directory.relative_to(built[0]))
    assert index_cache(root, root.path / cache.directory.relative_to(built[0]))
    assert lookup.read_bytes() == wanted
    assert not index_cache(root, root.path / cache.directory.relative_to(built[0]))


def test_caches_without_a_look_up_are_named(root: Root, built: tuple[Path, Pairs]) -> None:
    windows, cache = built[1]["chr20"]
    # Replaced by a build of another code version: same place, another manifest.
    publish_cache(root, windows, code_version="2")
    named = rf"{location(cache)} \(embeddings/cache\[chr20\]\): there is no look-up of window hashes\. Make it again"
    with pytest.raises(CorruptResourceError, match=named):
        open_cache_index(root)
    assert refresh_cache_index(root).made == (location(cache),)
    (root.path / location(cache)).unlink()
    assert check_cache_index(root).rows == 88 - windows.manifest.counts["windows"]
    for path in (root.path / "embeddings/.gen").glob("*.rows"):
        path.unlink()
    with pytest.raises(CorruptResourceError, match=r"; and 3 more\. Make it again: genolewm cache index"):
        open_cache_index(root)
    assert {finding.kind for finding in find_index_faults(root)} == {FindingKind.STALE}
    assert len(refresh_cache_index(root).made) == 6
    for link in (root.path / "embeddings").glob("[!.]*"):
        link.unlink()
    assert open_cache_index(root).find(bytes(32)) == []


def test_a_folder_that_is_no_root(tmp_path: Path) -> None:
    for call in (open_cache_index, refresh_cache_index, find_index_faults):
        with pytest.raises(MissingResourceError, match="not a root"):
            call(Root(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_look_up_is_made_again(root: Root, built: tuple[Path, Pairs]) -> None:
    path = lookup_of(root, built[1]["chr20"][1])
    whole = path.read_bytes()
    assert find_index_faults(root) == []
    for damage in (lambda: os.truncate(path, len(whole) - 1), lambda: flip(path, 200), lambda: path.write_bytes(b"")):
        path.chmod(0o644)
        damage()
        with pytest.raises(CorruptResourceError, match=r"embeddings/cache\[chr20\].* genolewm cache index"):
            check_cache_index(root)
        (fault,) = find_index_faults(root)
        assert (fault.kind, fault.location) == (FindingKind.CORRUPT, location(built[1]["chr20"][1]))
        assert len(refresh_cache_index(root).made) == 1
        assert path.read_bytes() == whole


def test_look_ups_go_with_their_generations(root: Root, built: tuple[Path, Pairs]) -> None:
    windows, cache = built[1]["chr20"]
    newer = publish_cache(root, windows, code_version="2")
    refresh_cache_index(root)
    stray = root.path / "embeddings/.gen" / f"0123456789abcdef.{'0' * 12}.rows"
    stray.write_bytes(b"of a generation that is gone")
    old = root.path / "embeddings/.gen" / cache.directory.name
    gone = {str(path.relative_to(root.path)) for path in (old, lookup_of(root, cache), stray)}
    assert {removed.path for removed in collect_garbage(root, dry_run=True)} == gone
    assert {removed.path for removed in collect_garbage(root)} == gone
    assert not lookup_of(root, cache).exists()
    assert lookup_of(root, newer).is_file()
    assert check_cache_index(root).rows == 88


def test_a_generation_that_is_published_again_meanwhile_keeps_its_look_up(
    root: Root, built: tuple[Path, Pairs], monkeypatch: pytest.MonkeyPatch
) -> None:
    windows, cache = built[1]["chr20"]
    publish_cache(root, windows, code_version="2")
    link, free = root.path / location(cache), Root.while_free

    def publish_first(self: Root, where: str) -> AbstractContextManager[None]:
        link.unlink()
        link.symlink_to(Path(".gen") / cache.directory.name)
        return free(self, where)

    monkeypatch.setattr(Root, "while_free", publish_first)
    assert collect_garbage(root) == []
    assert lookup_of(root, cache).is_file()


def break_link(root: Root, windows: Published, cache: Published) -> str:
    shutil.rmtree(root.path / "embeddings/.gen" / cache.directory.name)
    return "is gone"


def break_manifest(root: Root, windows: Published, cache: Published) -> str:
    path = root.path / "embeddings/.gen" / cache.directory.name / "manifest.json"
    path.write_text(path.read_text().replace('"code_version": "1"', '"code_version": "3"'))
    return "its manifest was altered"


def lose_table(root: Root, windows: Published, cache: Published) -> str:
    lookup_of(root, cache).unlink()
    shutil.rmtree(root.path / "windows/tiny/.gen" / windows.directory.name)
    return "its window table is not in the root"


def alter_table(root: Root, windows: Published, cache: Published) -> str:
    lookup_of(root, cache).unlink()
    flip(root.path / "windows/tiny/.gen" / windows.directory.name / "windows.parquet", 300)
    return "content differs"


@pytest.mark.parametrize("damage", [break_link, break_manifest, lose_table, alter_table])
def test_a_cache_that_cannot_be_covered_is_counted_with_its_reason(
    damage: Callable[[Root, Published, Published], str], root: Root, built: tuple[Path, Pairs]
) -> None:
    windows, cache = built[1]["chr21"]
    wanted = places(pair for name, pair in built[1].items() if name != "chr21")
    reason = damage(root, windows, cache)
    report = refresh_cache_index(root)
    assert len(report.caches) == 6
    assert list(report.omitted) == [location(cache)]
    assert reason in report.omitted[location(cache)]
    if damage is alter_table:
        # What is there now is not what the cache was made from; only another look at the table can tell.
        with pytest.raises(CorruptResourceError, match="there is no look-up of window hashes"):
            open_cache_index(root)
        return
    index = open_cache_index(root)
    assert {digest: index.find(digest) for digest in wanted} == wanted
    assert list(index.omitted) == [location(cache)]


def test_partitions_that_are_published_at_once_are_all_covered(root: Root, built: tuple[Path, Pairs]) -> None:
    """Each process publishes a cache and makes its look-up, as the runs of a backfill do."""
    for path in (*(root.path / "embeddings").glob("[!.]*"), *(root.path / "embeddings/.gen").glob("*.rows")):
        path.unlink()
    patient = Root(root.path, lock_wait_s=60)
    children = [
        start(lambda windows=windows: index_cache(patient, publish_cache(patient, windows).directory))
        for windows, _ in [*built[1].values()] * 2
    ]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 14
    assert (check_cache_index(root).rows, check_cache_index(root).omitted) == (88, {})
    assert verify_root(root) == []


def test_killed_anywhere_it_says_that_a_cache_is_not_covered_or_covers_it(
    root: Root, built: tuple[Path, Pairs], kill_points: KillPoints
) -> None:
    cache = built[1]["chr20"][1]
    generation, states = root.path / cache.directory.relative_to(built[0]), set()

    def prepare() -> Callable[[], object]:
        lookup_of(root, cache).unlink(missing_ok=True)
        return lambda: index_cache(root, generation)

    for _ in kill_points(prepare, lambda: root.path):
        try:
            states.add(check_cache_index(root).rows)
        except CorruptResourceError as err:
            assert "there is no look-up" in str(err)
            states.add("not covered")
        assert not any(finding.is_fault for finding in verify_root(root))
        assert refresh_cache_index(root).rows == 88
    assert states == {"not covered", 88}


def test_the_index_is_exported_as_a_database_for_others(root: Root, built: tuple[Path, Pairs], tmp_path: Path) -> None:
    """Read the tables as anyone would who has SQLite and not this code."""
    break_manifest(root, *built[1]["chr21"])
    wanted = places(pair for name, pair in built[1].items() if name != "chr21")
    assert export_cache_index(root, tmp_path / "x.sqlite") == sum(map(len, wanted.values()))
    with closing(sqlite3.connect(tmp_path / "x.sqlite")) as file:
        rows = file.execute("SELECT hash, location, row FROM addresses JOIN stores ON number = store").fetchall()
        (omitted,) = file.execute("SELECT location FROM omitted").fetchall()
    assert sorted(rows) == sorted((digest, *address) for digest, found in wanted.items() for address in found)
    assert omitted == (location(built[1]["chr21"][1]),)
    with pytest.raises(InputError, match="a file of that name exists"):
        export_cache_index(root, tmp_path / "x.sqlite")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["root", "x.sqlite"]


@each_row("text", ["", "ab" * 15, "ab" * 24, "ab" * 33, "xy" * 32, "0x" + "ab" * 31, "ab" * 32 + "\n"])
def test_what_is_no_window_hash(text: str) -> None:
    with pytest.raises(InputError, match="expected 64 hex digits, or the 32 of a window_id"):
        parse_window_hash(text)
