from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from genolewm_assets.errors import CorruptResourceError, InputError, MissingResourceError
from genolewm_assets.store import ArrayStoreReader, ArrayStoreWriter, IndexEntry, compute_fingerprint
from genolewm_assets.store.arrays import checksums as array_checksums
from genolewm_assets.store.arrays.layout import ArraySpec
from genolewm_assets.store.arrays.memory import MemoryLimitError
from genolewm_assets.store.arrays.reader import Access
from genolewm_assets.store.arrays.report import verify_array_store
from genolewm_assets_tests.faults.killing import outcome
from genolewm_assets_tests.heard import Heard
from genolewm_assets_tests.worlds.store.array_stores import FINGERPRINT, finish, key, meta, values
from genolewm_assets_tests.worlds.store.plans import flip

ROWS = 21


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finish(tmp_path_factory.mktemp("array") / "store", ROWS)


@pytest.fixture
def store(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "store"))


def test_one_row_is_a_read_only_view_of_every_array(store: Path) -> None:
    reader = ArrayStoreReader(store)
    for row in (0, 7, 8, ROWS - 1):
        found, wanted = reader.get_row(row), values(row, row + 1)
        for name, array in wanted.items():
            np.testing.assert_array_equal(found[name], array[0])
            assert found[name].dtype == array.dtype
            assert not found[name].flags.writeable
            assert not found[name].flags.owndata
            assert type(found[name]) is np.ndarray


@pytest.mark.parametrize("indices", [[3], [20, 0, 20, 7, 8], range(ROWS), np.array([5, 1], np.uint8), []])
def test_rows_come_in_the_order_asked_for(store: Path, indices: object) -> None:
    wanted = values(0, ROWS)["states"][np.array(indices, dtype=int)]
    found = ArrayStoreReader(store).get_rows(indices, array="states")  # type: ignore[arg-type]
    np.testing.assert_array_equal(found, wanted)
    assert found.dtype == np.float16
    assert found.flags.writeable


def test_rows_go_where_they_are_wanted(store: Path) -> None:
    reader, wanted = ArrayStoreReader(store, check=True), values(0, ROWS)["states"]
    out = np.empty((3, 3, 5), np.float16)
    for indices in ([20, 0, 20], [7, 8, 9]):
        assert reader.get_rows(indices, "states", out=out) is out
        np.testing.assert_array_equal(out, wanted[indices])
    with pytest.raises(InputError, match="no such row"):
        reader.get_rows([0, 1, ROWS], "states", out=out)
    for wrong in (np.empty((2, 3, 5), np.float16), np.empty((3, 3, 5), np.float32), np.empty((3, 15), np.float16)):
        with pytest.raises(InputError, match="rows do not fit `out`"):
            reader.get_rows([0, 1, 2], "states", out=wrong)


@pytest.mark.parametrize(("start", "stop"), [(0, ROWS), (7, 9), (ROWS, ROWS), (0, 0)])
def test_a_slice_is_a_read_only_view(store: Path, start: int, stop: int) -> None:
    found = ArrayStoreReader(store, check=True).get_slice(start, stop, "states")
    np.testing.assert_array_equal(found, values(start, stop)["states"])
    assert not found.flags.writeable
    assert not found.flags.owndata


@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (3, 2), (0, ROWS + 1)])
def test_a_slice_lies_within_the_store(store: Path, start: int, stop: int) -> None:
    with pytest.raises(InputError, match=f"no such rows: expected 0 <= start <= stop <= {ROWS}, got {start} to {stop}"):
        ArrayStoreReader(store).get_slice(start, stop, "states")


@pytest.mark.parametrize("access", ["normal", "sequential", "random"])
def test_how_rows_will_be_read_is_told_to_the_operating_system(store: Path, access: Access) -> None:
    reader = pickle.loads(pickle.dumps(ArrayStoreReader(store, access=access)))
    reader.get_row(0)
    # The kernel's own words: rr after madvise(RANDOM), sr after SEQUENTIAL (proc(5), smaps).
    maps = Path("/proc/self/smaps").read_text().split("\n")
    at = next(n for n, line in enumerate(maps) if line.endswith(str(store / "states.bin")))
    flags = next(line for line in maps[at:] if line.startswith("VmFlags:")).split()
    assert {"rr", "sr"} & set(flags) == {"random": {"rr"}, "sequential": {"sr"}, "normal": set()}[access]


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        ([ROWS], f"no such row: expected 0 to {ROWS - 1}, got {ROWS}"),
        ([0, -1], "no such row.*got -1"),
        ([0.0], "expected integers of shape"),
        ([[0]], "expected integers of shape"),
        ([True], "expected integers of shape"),
        (0, "expected integers of shape"),
    ],
)
def test_rows_that_are_none(store: Path, indices: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ArrayStoreReader(store).get_rows(indices, "states")  # type: ignore[arg-type]


def test_a_row_or_array_that_is_none(store: Path) -> None:
    reader = ArrayStoreReader(store)
    for row in (-1, ROWS):
        with pytest.raises(InputError, match="no such row"):
            reader.get_row(row)
    with pytest.raises(InputError, match="expected integers of shape"):
        reader.get_row(0.0)  # type: ignore[arg-type]
    for name in ("other", None):
        with pytest.raises(InputError, match=r"no such array: expected one of \['states', 'mask', 'scale'\]"):
            reader.get_rows([0], name)
    for name, number in (("panel", 99), ("panel", -1)):
        with pytest.raises(InputError, match=r"panels\.json: no such key: expected 0 to 3"):
            reader.sidecar(name, number)
    with pytest.raises(InputError, match="no such side-car"):
        reader.sidecar("other", 0)


def test_the_only_array_needs_no_name(tmp_path: Path) -> None:
    with ArrayStoreWriter(tmp_path, [ArraySpec("states", (2,), "float32")], key_config={}) as writer:
        writer.write({"states": [1, 2]}, key="a")
        writer.finalize(compute_fingerprint({}, {}))
    assert ArrayStoreReader(tmp_path).get_rows([0]).tolist() == [[1, 2]]


def test_index_and_fingerprint(store: Path) -> None:
    reader = ArrayStoreReader(store)
    assert reader.keys() == [key(row) for row in range(ROWS)]
    assert reader.index.column_names == ["row", "key", "contig", "start", "panel_key", "allele_key", "meta_json"]
    first, second = IndexEntry(0, key(0), True, 0, None, '{"note":"é 0"}'), IndexEntry(1, key(1), True, 0, 0, "{}")
    assert reader.load_index()[:2] == [first, second]
    assert reader.fingerprint == FINGERPRINT
    assert len(reader) == reader.n_rows == ROWS
    assert reader.size_bytes == ROWS * (30 + 7 + 4)


def test_annotations_may_be_missing(tmp_path: Path) -> None:
    settings = {"key_column": "path", "columns": {"has_annotation": "bool"}}
    with ArrayStoreWriter(tmp_path, [ArraySpec("a", (), "int8")], key_config={}, **settings) as writer:  # type: ignore[arg-type]
        writer.write({"a": 1}, key="x.hid", meta={"has_annotation": True})
        writer.write({"a": 0}, key="y.hid", meta={"has_annotation": False, "why": "none"})
        writer.finalize(compute_fingerprint({}, {}))
    missing = IndexEntry(1, "y.hid", has_annotation=False, meta_json='{"why":"none"}')
    assert ArrayStoreReader(tmp_path).load_index() == [IndexEntry(0, "x.hid"), missing]


def test_a_folder_named_like_a_partition_changes_nothing(tmp_path: Path) -> None:
    reader = ArrayStoreReader(finish(tmp_path / "contig=chrX" / "s", 3))
    assert reader.index.column("contig").to_pylist() == [meta(row)["contig"] for row in range(3)]


def test_a_link_is_resolved_once(store: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("store")
    reader = ArrayStoreReader(link)
    link.unlink()
    np.testing.assert_array_equal(reader.get_rows([3], "states"), values(3, 4)["states"])


def test_a_forked_reader_keeps_what_is_in_memory_and_maps_anew_otherwise(store: Path) -> None:
    reader = ArrayStoreReader(store)
    reader.get_row(0)
    mapped = reader._maps["states"]
    assert outcome(lambda: (reader.get_row(0), reader._maps["states"] is mapped)[1]) == "False"
    reader.load_in_memory()
    wanted = str(float(reader.get_row(3)["scale"]))
    shutil.rmtree(store)
    assert outcome(lambda: float(reader.get_row(3)["scale"])) == wanted


def test_a_pickle_is_small_and_keeps_the_checking(store: Path) -> None:
    reader = ArrayStoreReader(store, check=True)
    reader.load_in_memory()
    reader.load_index()
    data = pickle.dumps(reader)
    assert len(data) < 600
    copy = pickle.loads(data)
    assert copy.check
    assert copy.directory == reader.directory
    shutil.rmtree(store)
    with pytest.raises(MissingResourceError):
        pickle.loads(data)


def test_memory_guard_names_both_figures(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = ArrayStoreReader(store)
    monkeypatch.setattr("genolewm_assets.store.arrays.memory.usable_memory_bytes", lambda: 2 * reader.size_bytes - 1)
    with pytest.raises(RuntimeError, match="would use 861 bytes, which exceeds 50% of the 1721 bytes") as raised:
        reader.load_in_memory()
    assert isinstance(raised.value, MemoryLimitError)
    reader.load_in_memory(max_fraction=0.51)
    assert reader.get_row(1)["states"].tobytes() == values(1, 2)["states"].tobytes()
    with pytest.raises(ValueError, match="read-only"):
        reader.get_row(1)["states"][0, 0] = 1


def test_loading_into_memory_checks_too(store: Path) -> None:
    flip(store / "mask.bin", 7 * 12)
    with pytest.raises(CorruptResourceError, match=r"mask\.bin: rows 8 to 15 differ"):
        ArrayStoreReader(store, check=True).load_in_memory()


@pytest.mark.parametrize(("name", "row_bytes"), [("states", 30), ("mask", 7), ("scale", 4)])
def test_a_flipped_bit_is_seen_when_its_batch_is_read(store: Path, name: str, row_bytes: int) -> None:
    for row in (0, 7, 8, 15, 16, 20):
        flip(store / f"{name}.bin", row * row_bytes + row % row_bytes, bit=row % 8)
        first, last = row // 8 * 8, min(row // 8 * 8 + 7, ROWS - 1)
        line = f"{name}.bin: rows {first} to {last} differ from what was written: expected crc32c"
        reader = ArrayStoreReader(store, check=True)
        with pytest.raises(CorruptResourceError, match=line):
            reader.get_rows([last], name)
        with pytest.raises(CorruptResourceError, match=line):
            reader.get_row(first)
        healthy = [n for n in range(ROWS) if not first <= n <= last]
        np.testing.assert_array_equal(reader.get_rows(healthy, name), values(0, ROWS)[name][healthy])
        assert [problem[: len(line)] for problem in verify_array_store(store)] == [line]
        flip(store / f"{name}.bin", row * row_bytes + row % row_bytes, bit=row % 8)


def test_a_batch_is_checked_once_per_process(store: Path) -> None:
    reader = ArrayStoreReader(store, check=True)
    reader.get_rows([0], "states")
    flip(store / "states.bin", 0)
    reader.get_rows([0], "states")
    with pytest.raises(CorruptResourceError, match="rows 0 to 7"):
        ArrayStoreReader(store, check=True).get_rows([0], "states")


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut": (lambda d: os.truncate(d / "states.bin", 30 * 13 + 1), r"states\.bin: size differs; rows from 13 on are"),
    "grown": (lambda d: os.truncate(d / "mask.bin", 7 * 22), r"mask\.bin: size differs: expected 147 bytes"),
    "emptied": (lambda d: os.truncate(d / "scale.bin", 0), r"scale\.bin: size differs; rows from 0 on are missing"),
    "array gone": (lambda d: (d / "mask.bin").unlink(), r"mask\.bin: cannot be read"),
    "shapes gone": (lambda d: (d / "shapes.json").unlink(), r"shapes\.json: cannot be read"),
    "shapes altered": (lambda d: flip(d / "shapes.json", 9), r"shapes\.json: content differs"),
    "checksums gone": (lambda d: (d / "crc.json").unlink(), r"crc\.json: cannot be read"),
    "checksums altered": (lambda d: flip(d / "crc.json", 30), r"crc\.json: content differs"),
    "marker gone": (lambda d: (d / "_COMPLETE").unlink(), "has no finished array store"),
    "marker emptied": (lambda d: os.truncate(d / "_COMPLETE", 0), "_COMPLETE: content differs"),
    "all gone": (shutil.rmtree, "has no finished array store"),
}  # fmt: skip


@pytest.mark.parametrize(("damage", "message"), DAMAGES.values(), ids=DAMAGES)
def test_damage_is_found_at_open(store: Path, damage: Callable[[Path], object], message: str) -> None:
    damage(store)
    with pytest.raises((CorruptResourceError, MissingResourceError), match=message):
        ArrayStoreReader(store)
    assert len(verify_array_store(store)) == 1


READS: dict[str, Callable[[ArrayStoreReader], object]] = {
    "index.parquet": ArrayStoreReader.keys,
    "panels.json": lambda reader: reader.sidecar("panel", 0),
    "fingerprint.json": lambda reader: reader.fingerprint,
}


@pytest.mark.parametrize("name", READS)
def test_damage_is_found_at_the_first_read(store: Path, name: str) -> None:
    flip(store / name, 30)
    with pytest.raises(CorruptResourceError, match=name):
        READS[name](ArrayStoreReader(store))
    (store / name).unlink()
    with pytest.raises(MissingResourceError, match=name):
        READS[name](ArrayStoreReader(store))


def test_a_file_cut_after_opening_is_an_error_and_not_the_end_of_the_process(store: Path) -> None:
    reader = ArrayStoreReader(store)
    os.truncate(store / "states.bin", 30)
    with pytest.raises(CorruptResourceError, match="rows from 1 on are missing"):
        reader.get_rows([20], "states")
    assert [problem.split(" differ")[0] for problem in reader.verify()] == [
        f"states.bin: rows {first} to {last}" for first, last in ((0, 7), (8, 15), (16, 20))
    ]
    (store / "states.bin").unlink()
    assert reader.verify() == ["states.bin: cannot be read (No such file or directory)"]


def test_an_empty_store(tmp_path: Path) -> None:
    reader = ArrayStoreReader(finish(tmp_path / "s", 0), check=True)
    assert reader.get_rows([], "states").shape == (0, 3, 5)
    assert reader.keys() == reader.verify() == []
    reader.load_in_memory()
    assert reader.get_rows(np.zeros(0, int), "states").shape == (0, 3, 5)
    with pytest.raises(InputError, match="expected nothing, because the store has no rows or values, got 0"):
        reader.get_row(0)


def test_verify_reads_ahead_in_several_threads(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_checksums, "_READ_BYTES", 1)
    seen = Heard()
    verify_array_store(store, progress=seen)
    assert seen[-1] == (861, 861, "bytes hashed")
    assert len(seen) == 9
    for row in (20, 9):
        flip(store / "states.bin", row * 30)
    found = [problem.split(" differ")[0] for problem in verify_array_store(store)]
    assert found == ["states.bin: rows 8 to 15", "states.bin: rows 16 to 20"]
