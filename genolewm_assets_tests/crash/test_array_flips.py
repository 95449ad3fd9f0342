"""One flipped bit, or one byte too few or too many, in any file of an array store: found, and never a wrong row."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from genolewm_assets.errors import CorruptResourceError, MissingResourceError, ResourceError
from genolewm_assets.store import ArrayStoreReader
from genolewm_assets.store.arrays.report import verify_array_store
from genolewm_assets_tests.worlds.store.array_stores import (
    FINGERPRINT,
    contents,
    finish,
    key,
    open_writer,
    values,
    write_rows,
)

pytestmark = [pytest.mark.nightly, pytest.mark.usefixtures("no_syncs")]

ROWS = 5
FILES = [
    "_COMPLETE",
    "alleles.json",
    "crc.json",
    "fingerprint.json",
    "index.parquet",
    "mask.bin",
    "panels.json",
    "scale.bin",
    "shapes.json",
    "states.bin",
]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finish(tmp_path_factory.mktemp("array") / "store", ROWS, commit_rows=2)


@pytest.fixture
def store(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "store"))


def flipped(data: bytes, *, bits: tuple[int, ...]) -> Iterator[tuple[int, int, bytes]]:
    """Yield the bytes with one bit flipped: of every byte, or of every other in a long file."""
    for at in range(0, len(data), 1 + (len(data) > 1_000)):
        for bit in bits if len(bits) == 8 else (bits[at % len(bits)],):
            yield at, bit, data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


def test_the_files_are_all(store: Path) -> None:
    assert sorted(contents(store)) == FILES


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_at_any_byte_is_found_by_verify(store: Path, name: str) -> None:
    data = (store / name).read_bytes()
    # All eight where a text might be read the same after it: in the marker, which nothing else covers.
    bits = tuple(range(8)) if name == "_COMPLETE" else (0, 5, 2, 7, 4, 1, 6, 3)[: len(data) % 7 + 1]
    for at, bit, altered in flipped(data, bits=bits):
        (store / name).write_bytes(altered)
        problems = verify_array_store(store)
        assert problems, f"bit {bit} of byte {at}"
        assert any(name in problem for problem in problems)
    (store / name).write_bytes(data)
    assert verify_array_store(store) == []


def use_everything(directory: Path) -> None:
    """Open a store and read all of it, checked."""
    reader = ArrayStoreReader(directory, check=True)
    for name in reader.arrays:
        reader.get_rows(range(ROWS), name)
    reader.load_index()
    for name in reader.layout.sidecars:
        reader.sidecar_texts(name)
    assert reader.fingerprint == FINGERPRINT


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_is_found_by_who_reads_it(store: Path, name: str) -> None:
    data = (store / name).read_bytes()
    for at, _, altered in flipped(data, bits=(3, 0, 6)):
        if at % 5 == 0 or len(data) < 100:
            (store / name).write_bytes(altered)
            with pytest.raises(CorruptResourceError, match=name):
                use_everything(store)


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_any_other_length_is_found_at_first_use(store: Path, name: str) -> None:
    data = (store / name).read_bytes()
    use_everything(store)
    for other in (*(data[:length] for length in range(0, len(data), 7)), data[:-1], data + b"\0", data + data):
        (store / name).write_bytes(other)
        with pytest.raises(CorruptResourceError, match=name):
            ArrayStoreReader(store) if name.endswith(".bin") else use_everything(store)
        assert verify_array_store(store) != []
    (store / name).unlink()
    with pytest.raises(MissingResourceError, match=name if name != "_COMPLETE" else "has no finished array store"):
        use_everything(store)


def go_on(directory: Path) -> int:
    """Go on from what is there, and finish; returns the rows that counted."""
    with open_writer(directory, commit_rows=2) as writer:
        rows = writer.n_rows
        assert writer.resume_keys() == [key(row) for row in range(rows)]
        for spec in writer.layout.arrays:
            assert (directory / spec.file_name).read_bytes() == values(0, rows)[spec.name].tobytes()
        if rows < ROWS:
            write_rows(writer, rows, ROWS)
        writer.finalize(FINGERPRINT)
    return rows


@pytest.mark.parametrize("name", ["manifest.jsonl", "sidecars.jsonl", "states.bin", "mask.bin", "scale.bin"])
def test_a_flipped_bit_in_an_unfinished_store_makes_no_wrong_row(tmp_path: Path, original: Path, name: str) -> None:
    with open_writer(tmp_path / "begun", commit_rows=2) as writer:
        write_rows(writer, 0, ROWS)
    data, wanted, counted = (tmp_path / "begun" / name).read_bytes(), contents(original), set()
    for at, bit, altered in flipped(data, bits=(1, 4, 7, 0)):
        if at % 5 and len(data) > 400:
            continue
        directory = Path(shutil.copytree(tmp_path / "begun", tmp_path / "flipped"))
        (directory / name).write_bytes(altered)
        counted.add(go_on(directory))
        assert contents(directory) == wanted, f"bit {bit} of byte {at}"
        shutil.rmtree(directory)
    assert ROWS not in counted
    assert counted <= {0, 2, 4}
    assert len(counted) > 1


@pytest.mark.parametrize("name", ["manifest.jsonl", "sidecars.jsonl", "states.bin"])
def test_lines_and_rows_of_another_store_do_not_count(tmp_path: Path, original: Path, name: str) -> None:
    """A file that is whole in itself, but of another store of the same layout."""
    for place, first in (("begun", 0), ("other", 50)):
        with open_writer(tmp_path / place, commit_rows=2) as writer:
            write_rows(writer, first, first + ROWS)
    shutil.copyfile(tmp_path / "other" / name, tmp_path / "begun" / name)
    try:
        rows = go_on(tmp_path / "begun")
    except ResourceError:
        return
    assert rows == 0
    assert contents(tmp_path / "begun") == contents(original)
