"""The look-up of a cache: answers as a plain dictionary's, from one sorted file that is replaced and never altered."""

from __future__ import annotations

import hashlib
import os
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genolewm_assets.errors import CorruptResourceError, InputError, MissingResourceError
from genolewm_assets.states import row_lookup
from genolewm_assets.states.row_lookup import RowLookup, write_lookup
from genolewm_assets.states.window_tables import WindowTable
from genolewm_assets.store.artefacts import ArtefactId
from genolewm_assets_tests.faults.kill_points import KillPoints
from genolewm_assets_tests.faults.killing import outcome
from genolewm_assets_tests.faults.small_disk import SmallDisk, on_small_disk
from genolewm_assets_tests.worlds.store.plans import flip

SHA256 = "a" * 64


def make_hash(number: int, *, first: int = 0) -> bytes:
    """Two numbers that differ in the last bytes alone make hashes that sort next to each other."""
    return bytes([first, *bytes(23), *number.to_bytes(8, "big")])


#: Repeated hashes, some that differ in their last bytes only, and some that differ in their first.
HASHES = [make_hash(n % 7, first=200 * (n % 2)) for n in range(40)]
HASHES += [make_hash(n, first=n) for n in range(255, 0, -1)]


def table_of(folder: Path, hashes: Sequence[bytes]) -> WindowTable:
    path = folder / "windows.parquet"
    pq.write_table(pa.table({"window_hash": pa.array(hashes, pa.binary(32))}), path, row_group_size=9)
    return WindowTable(ArtefactId("windows/index", "chr21"), path, SHA256, path.stat().st_size)


def write(folder: Path, hashes: Sequence[bytes] = HASHES) -> Path:
    write_lookup(folder / "cache.rows", table_of(folder, hashes), len(hashes))
    return folder / "cache.rows"


def expected(hashes: Sequence[bytes]) -> dict[bytes, list[tuple[bytes, int]]]:
    places = defaultdict(list)
    for row, digest in enumerate(hashes):
        places[digest].append((digest, row))
    return dict(places)


def test_a_hash_leads_to_all_its_rows(tmp_path: Path) -> None:
    lookup, places = RowLookup(write(tmp_path), SHA256, len(HASHES)), expected(HASHES)
    assert max(map(len, places.values())) > 2
    assert {digest: lookup.find(digest) for digest in places} == places
    assert lookup.find(make_hash(99)) == lookup.find(b"\xff" * 32) == []
    assert list(lookup.records()) == sorted((digest, row) for row, digest in enumerate(HASHES))
    lookup.verify()


def test_the_beginning_of_a_hash_will_do(tmp_path: Path) -> None:
    lookup = RowLookup(write(tmp_path), SHA256, len(HASHES))
    low, high = make_hash(0, first=200), make_hash(5, first=200)
    begin = sorted((digest, row) for row, digest in enumerate(HASHES) if digest[:16] == low[:16])
    assert lookup.find(low[:16]) == lookup.find(high[:16]) == begin
    assert len(begin) > 5
    # A hash that ends in zeros is not the beginning of others.
    assert lookup.find(low) == expected(HASHES)[low]
    for wrong in (b"", bytes(15), bytes(33)):
        with pytest.raises(InputError, match="expected 16 to 32 bytes"):
            lookup.find(wrong)


def test_a_cache_without_rows_has_a_look_up(tmp_path: Path) -> None:
    lookup = RowLookup(write(tmp_path, []), SHA256, 0)
    assert lookup.find(bytes(32)) == list(lookup.records()) == []


@settings(max_examples=25)
@given(
    hashes=st.lists(st.binary(min_size=32, max_size=32) | st.integers(0, 4).map(make_hash), max_size=40),
    at_once=st.integers(1, 9),
)
def test_records_are_sorted_in_pieces(
    hashes: list[bytes], at_once: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("any")
    whole = write(folder, hashes).read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_lookup, "_SORTED_ROWS", at_once)
        path = write(folder, hashes)
    assert path.read_bytes() == whole
    records = RowLookup(path, SHA256, len(hashes)).records()
    assert list(records) == sorted((digest, row) for row, digest in enumerate(hashes))


def test_forks_and_threads_share_it_and_a_new_file_leaves_it_alone(tmp_path: Path) -> None:
    hashes = [hashlib.sha256(bytes([n % 256, n // 256])).digest() for n in range(3_000)]
    path, places = write(tmp_path, hashes), expected(hashes)
    lookup = RowLookup(path, SHA256, len(hashes))
    path.chmod(0o444)
    write(tmp_path, [make_hash(77)])
    assert outcome(lambda: [lookup.find(digest) for digest in places] == list(places.values())) == "True"
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lookup.find, places)) == list(places.values())
    assert RowLookup(path, SHA256, 1).find(make_hash(77)) == [(make_hash(77), 0)]


def damage_link(path: Path) -> None:
    """To the look-up of another cache, say."""
    path.rename(path.with_name("other.rows"))
    path.symlink_to("other.rows")


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut": (lambda p: os.truncate(p, p.stat().st_size - 40), r"size differs: expected (\d+) bytes, got \d+ bytes\."),
    "emptied": (lambda path: os.truncate(path, 0), "is not the look-up of the 295 window hashes of its cache"),
    "grown": (lambda path: os.truncate(path, 1 << 20), "size differs"),
    "text": (lambda path: path.write_text("hash,row\n" * 100), "is not the look-up"),
    "of another table": (lambda path: flip(path, 10), "is not the look-up"),
    "a pipe": (lambda path: (path.unlink(), os.mkfifo(path)), "is not a regular file"),
    "a link": (damage_link, "is a symlink"),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), "is not a regular file"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_file_that_is_no_look_up_says_how_to_get_one(name: str, tmp_path: Path) -> None:
    path = write(tmp_path)
    damage, message = DAMAGES[name]
    damage(path)
    with pytest.raises(CorruptResourceError, match=message) as raised:
        RowLookup(path, SHA256, len(HASHES))
    assert "genolewm cache index" in str(raised.value)
    assert str(path) in str(raised.value)


def test_no_file_and_a_file_of_others_say_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(MissingResourceError, match=r"no look-up of window hashes. Make it again: genolewm cache index"):
        RowLookup(tmp_path / "none", SHA256, 1)
    path = write(tmp_path)
    for sha256, n_rows in (("b" * 64, len(HASHES)), (SHA256, len(HASHES) - 1), ("None", len(HASHES))):
        with pytest.raises(CorruptResourceError, match="is not the look-up"):
            RowLookup(path, sha256, n_rows)


@pytest.mark.parametrize("checked_rows", [1, 256])
def test_no_flipped_bit_hides_a_row_or_leads_to_a_wrong_one(
    checked_rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_lookup, "_CHECKED_ROWS", checked_rows)
    hashes = [hashlib.sha256(bytes([n % 256, n // 256])).digest() for n in range(2_000)]
    path, places = write(tmp_path, hashes), expected(hashes)
    whole, draw, outcomes = path.read_bytes(), random.Random(6), Counter[str]()
    flips = [(draw.randrange(len(whole)), draw.randrange(8)) for _ in range(200)]
    # The beginnings of hashes with which every search begins.
    flips += [(88 + 40 * row, 7) for row in (1_000, 500, 1_500)]
    for at, bit in flips:
        flip(path, at, bit)
        for digest in draw.sample(hashes, 60):
            try:
                found = RowLookup(path, SHA256, len(hashes)).find(digest)
            except CorruptResourceError:
                outcomes["refused"] += 1
                continue
            outcomes["right"] += 1
            assert found == places[digest]
        path.write_bytes(whole)
    assert min(outcomes["right"], outcomes["refused"]) > 10


def test_a_full_disk_keeps_the_former_file(tmp_path: Path) -> None:
    def fill(disk: SmallDisk) -> object:
        path = write(disk.folder)
        table = table_of(disk.folder, [make_hash(n, first=n % 256) for n in range(20_000)])
        disk.leave(64 << 10)
        with pytest.raises(OSError, match="No space left"):
            write_lookup(path, table, 20_000)
        (found,) = RowLookup(path, SHA256, len(HASHES)).find(HASHES[60])
        return sorted(path.name for path in disk.folder.iterdir()), found[1]

    assert on_small_disk(tmp_path / "disk", fill) == "(['cache.rows', 'windows.parquet'], 60)"


def test_killed_anywhere_there_is_the_old_file_or_the_new(tmp_path: Path, kill_points: KillPoints) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    table = table_of(tmp_path, [make_hash(77)])
    seen = set()

    def prepare() -> Callable[[], object]:
        write(folder)
        return lambda: write_lookup(folder / "cache.rows", table, 1)

    for _ in kill_points(prepare, lambda: folder, further=[(row_lookup, ["_block_check", "_header"])]):
        size_bytes = (folder / "cache.rows").stat().st_size
        n_rows = 1 if size_bytes < 1_000 else len(HASHES)
        RowLookup(folder / "cache.rows", SHA256, n_rows).verify()
        seen.add(n_rows)
    assert seen == {1, len(HASHES)}
