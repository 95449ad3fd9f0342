"""The index from hashes to rows: answers as a plain dictionary's, from one file that is replaced and never altered."""

from __future__ import annotations

import os
import pickle
import random
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genolewm_assets.errors import CorruptResourceError, InputError, MissingResourceError, ResourceError
from genolewm_assets.store.arrays import row_index
from genolewm_assets.store.arrays.row_index import HashSource, IndexedStore, RowAddress, RowIndex, publish_row_index
from genolewm_assets.store.artefacts.gc import collect_garbage
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.artefacts.verify import verify_root
from genolewm_assets_tests.faults.kill_points import KillPoints
from genolewm_assets_tests.faults.killing import outcome
from genolewm_assets_tests.faults.small_disk import SmallDisk, on_small_disk
from genolewm_assets_tests.worlds.store.plans import flip, new_root

LOCATION = "rows.sqlite"

#: Hashes by store, in the order of the rows.
Hashes = Mapping[str, Sequence[bytes]]


def make_hash(number: int, *, first: int = 0) -> bytes:
    """Two numbers that differ in the last bytes alone make hashes that sort next to each other."""
    return bytes([first, *bytes(23), *number.to_bytes(8, "big")])


STORES: Hashes = {
    "embeddings/b": [make_hash(n % 7, first=200 * (n % 2)) for n in range(40)],
    "embeddings/a": [make_hash(n, first=n) for n in range(25)],
    "embeddings/empty": [],
}


def indexed(location: str, hashes: Sequence[bytes], version: str = "0") -> IndexedStore:
    return IndexedStore(location, f"label of {location}", version * 64, len(hashes))


def read_pieces(hashes: Sequence[bytes]) -> Iterator[np.ndarray]:
    for first in range(0, len(hashes), 9):
        piece = hashes[first : first + 9]
        yield np.frombuffer(b"".join(piece), np.uint8).reshape(len(piece), 32)


def publish(root: Root, hashes: Hashes = STORES, version: str = "0", **settings: int) -> Path:
    sources = [HashSource(indexed(name, rows, version), partial(read_pieces, rows)) for name, rows in hashes.items()]
    with root.lock(LOCATION) as lease:
        publish_row_index(root, LOCATION, lease, sources, {"embeddings/z": "has no table"}, **settings)
    return root.path / LOCATION


def expected(hashes: Hashes) -> dict[bytes, list[RowAddress]]:
    places = defaultdict(list)
    for location in sorted(hashes):
        for row, digest in enumerate(hashes[location]):
            places[digest].append(RowAddress(location, row))
    return dict(places)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return new_root(tmp_path / "root")


def test_a_hash_leads_to_all_its_rows(root: Root) -> None:
    with RowIndex(publish(root)) as index:
        places = expected(STORES)
        assert max(map(len, places.values())) > 2
        assert {digest: index.find(digest) for digest in places} == places
        assert index.find_many([*places, bytes(32)]) == [*places.values(), places[bytes(32)]]
        assert index.find(make_hash(99)) == []
        assert index.find_many([]) == []
        assert index.summary == {"hashes": len(places), "rows": 65}
        assert index.stores == [indexed(location, STORES[location]) for location in sorted(STORES)]
        assert index.omitted == {"embeddings/z": "has no table"}
        assert index.verify() == []


def test_the_beginning_of_a_hash_will_do(root: Root) -> None:
    with RowIndex(publish(root)) as index:
        low, high = make_hash(0, first=200), make_hash(5, first=200)
        wanted = sorted((digest, place) for digest, places in expected(STORES).items() for place in places)
        begin = [place for digest, place in wanted if digest[:16] == low[:16]]
        assert index.find(low[:16]) == index.find(high[:16]) == begin
        assert len(begin) > 5
        # A hash that ends in zeros is not the beginning of others.
        assert index.find(low) == expected(STORES)[low]
        for wrong in (b"", bytes(15), bytes(33)):
            with pytest.raises(InputError, match="expected 16 to 32 bytes"):
                index.find(wrong)


@settings(max_examples=20)
@given(
    stores=st.dictionaries(st.sampled_from(["a", "b/c", "d"]), st.lists(st.binary(min_size=32, max_size=32))),
    at_once=st.integers(1, 9),
)
def test_hashes_are_sorted_in_pieces(stores: Hashes, at_once: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    root = new_root(tmp_path_factory.mktemp("any"))
    path = publish(root, stores, at_once=at_once)
    with RowIndex(path) as index:
        assert {digest: index.find(digest) for digest in expected(stores)} == expected(stores)
        assert index.verify() == []
    found = rows_of(path)
    assert found == sorted(found)
    publish(root, dict(reversed(stores.items())))
    assert rows_of(path) == found


def rows_of(path: Path) -> list[tuple[bytes, int, int]]:
    """Read the table as anyone would who has SQLite and not this code."""
    with closing(sqlite3.connect(path)) as file:
        return file.execute("SELECT hash, store, row FROM addresses").fetchall()


def test_who_has_it_open_goes_on_and_who_comes_sees_the_new_one(root: Root) -> None:
    many = [make_hash(n, first=n % 256) for n in range(3_000)]
    path = publish(root, {"embeddings/a": many})
    with RowIndex(path) as old:
        old.find(bytes(32))
        publish(root, {"embeddings/a": [make_hash(77)]}, version="1")
        # Pages that it has not read yet.
        assert old.find_many(many) == [[RowAddress("embeddings/a", row)] for row in range(3_000)]
        assert old.find(make_hash(77)) == []
        with RowIndex(path) as new:
            assert new.find(make_hash(77)) == [RowAddress("embeddings/a", 0)]
            assert [store.manifest_sha256 for store in new.stores] == ["1" * 64]
        old.close()
        assert old.find(make_hash(77)) == [RowAddress("embeddings/a", 0)]


def test_forks_threads_and_pickles_have_their_own(root: Root) -> None:
    index, places = RowIndex(publish(root)), expected(STORES)
    assert index.find_many(places) == list(places.values())
    assert outcome(lambda: index.find_many(places) == list(places.values())) == "True"
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(index.find, [*places] * 20)) == list(places.values()) * 20
    copied = pickle.loads(pickle.dumps(index))
    assert copied.find_many(places) == list(places.values())
    for each in (index, copied):
        each.close()


def test_an_index_that_is_closed_while_others_ask_opens_again(root: Root) -> None:
    index, places = RowIndex(publish(root)), expected(STORES)

    def ask(number: int) -> bool:
        if number % 7 == 0:
            index.close()
        return index.find_many(places) == list(places.values())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, range(200)))
    index.close()


def test_what_is_asked_for_may_come_from_the_index_itself(root: Root) -> None:
    with RowIndex(publish(root)) as index:
        found = index.find_many(digest for digest in STORES["embeddings/a"] if index.find(digest))
    assert len(found) == 25


def test_more_hashes_than_a_statement_may_name(root: Root) -> None:
    with RowIndex(publish(root)) as index:
        known = STORES["embeddings/a"][3]
        found = index.find_many([known if number == 39_999 else make_hash(1_000 + number) for number in range(40_000)])
    assert found[39_999] == expected(STORES)[known]
    assert not any(found[:39_999])


def test_a_folder_that_cannot_be_written_to_is_enough(root: Root) -> None:
    path = publish(root)
    path.chmod(0o444)
    with RowIndex(path) as index:
        assert index.find(make_hash(3, first=3)) == [RowAddress("embeddings/a", 3)]
    assert [entry.name for entry in root.path.iterdir() if entry.name.startswith("rows")] == ["rows.sqlite"]


def damage_other_database(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("CREATE TABLE addresses (hash BLOB)")


def damage_link(path: Path) -> None:
    """To the index of another root, say."""
    path.rename(path.with_name("other.sqlite"))
    path.symlink_to("other.sqlite")


DAMAGES = {
    "cut": (lambda p: os.truncate(p, p.stat().st_size - 4_096), r"size differs: expected (\d+) bytes, got \d+ bytes\."),
    "emptied": (lambda path: os.truncate(path, 0), "is not a row index"),
    "half a page": (lambda path: os.truncate(path, 5000), "size differs"),
    "grown": (lambda path: os.truncate(path, 1 << 20), "size differs"),
    "text": (lambda path: path.write_text("hash,row\n" * 100), "is not a row index"),
    "a pipe": (lambda path: (path.unlink(), os.mkfifo(path)), "is not a regular file"),
    "a link": (damage_link, "is a symlink"),
    "another database": (damage_other_database, "cannot be read by this code: expected version 2, got version 0"),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), "is not a regular file"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGES)
def test_a_file_that_is_no_index_says_how_to_get_one(name: str, root: Root) -> None:
    path = publish(root)
    damage, message = DAMAGES[name]
    damage(path)
    index = RowIndex(path)
    with pytest.raises(CorruptResourceError, match=message) as raised:
        index.find(bytes(32))
    assert "genolewm cache index" in str(raised.value)
    assert str(path) in str(raised.value)
    assert len(index.verify()) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE stores SET location = 'embeddings/c'",
        "DELETE FROM omitted",
        "UPDATE summary SET value = value + 1 WHERE name = 'hashes'",
        "UPDATE summary SET name = 'row' WHERE name = 'rows'",
        "DELETE FROM summary",
    ],
)
def test_what_it_says_of_its_stores_is_checked_at_open(statement: str, root: Root) -> None:
    path = publish(root, {"embeddings/a": STORES["embeddings/a"]})
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute(statement)
    with pytest.raises(CorruptResourceError, match="the list of stores differs from what was written"):
        RowIndex(path).find(bytes(32))


def test_no_file_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(MissingResourceError, match=r"there is no row index. Make it again: genolewm cache index\.$"):
        RowIndex(tmp_path / "none").find(bytes(32))


def test_no_flipped_bit_leads_to_a_wrong_row(root: Root) -> None:
    path, places = publish(root), expected(STORES)
    whole, draw, outcomes = path.read_bytes(), random.Random(6), Counter[str]()
    for _ in range(400):
        flip(path, draw.randrange(len(whole)), draw.randrange(8))
        with RowIndex(path) as index:
            for digest, wanted in places.items():
                try:
                    found = index.find(digest)
                except CorruptResourceError:
                    outcomes["refused"] += 1
                else:
                    # A flip in a key, or on the way to it, hides a row; it never shows another.
                    assert set(found) <= set(wanted)
                    outcomes["right" if found == wanted else "hidden, verify " + str(bool(index.verify()))] += 1
        path.write_bytes(whole)
    assert outcomes["refused"] > outcomes["hidden, verify True"] > 0
    assert not outcomes["hidden, verify False"]


def test_a_store_with_another_number_of_hashes_is_refused(root: Root) -> None:
    publish(root)
    before = (root.path / LOCATION).read_bytes()
    wrong = HashSource(indexed("a", [bytes(32)] * 3), partial(read_pieces, [bytes(32)] * 2))
    with root.lock(LOCATION) as lease, pytest.raises(CorruptResourceError, match="expected 3 hashes, got 2"):
        publish_row_index(root, LOCATION, lease, [wrong], {})
    assert (root.path / LOCATION).read_bytes() == before
    assert root.leftovers(LOCATION) == []


def test_a_full_disk_keeps_the_former_index(tmp_path: Path) -> None:
    def rebuild(disk: SmallDisk) -> object:
        root = new_root(disk.folder / "root")
        path = publish(root)
        disk.leave(64 << 10)
        many = [make_hash(n, first=n % 256) for n in range(20_000)]
        with pytest.raises(ResourceError, match="the storage refused to write"):
            publish(root, {"a": many})
        with RowIndex(path) as index:
            assert index.verify() == []
            return index.find(make_hash(3, first=3))

    assert on_small_disk(tmp_path / "disk", rebuild) == "[RowAddress(store='embeddings/a', row=3)]"


def test_killed_anywhere_readers_have_the_old_one_or_the_new(tmp_path: Path, kill_points: KillPoints) -> None:
    roots: list[Root] = []
    fresh = {"embeddings/a": [make_hash(77)]}

    def prepare() -> partial[Path]:
        roots.append(new_root(tmp_path / str(len(roots)), lock_wait_s=0))
        publish(roots[-1])
        return partial(publish, roots[-1], fresh, "1")

    seen = set()
    for _ in kill_points(prepare, lambda: roots[-1].path, further=[(row_index, ["_choose", "_insertable", "closing"])]):
        root = roots[-1]
        with RowIndex(root.path / LOCATION) as index:
            assert index.verify() == []
            version = index.stores[0].manifest_sha256[0]
            seen.add(version)
            assert bool(index.find(make_hash(77))) == (version == "1")
        assert not any(finding.is_fault for finding in verify_root(root))
        collect_garbage(root)
        assert (root.path / LOCATION).is_file()
        publish(root, fresh, "1")
        assert root.leftovers(LOCATION) == []
    assert seen == {"0", "1"}
