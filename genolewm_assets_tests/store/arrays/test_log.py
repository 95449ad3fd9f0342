from __future__ import annotations

import json
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest

from genolewm_assets.errors import ConfigurationError, CorruptResourceError
from genolewm_assets.store.arrays.layout import ArrayLayout, ArraySpec, crc32c, layout_from_json
from genolewm_assets.store.arrays.log import committed_rows, read_commits, read_header, recover
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.store.array_stores import ARRAYS, key, open_writer, write_rows

ROWS = 20  # commits at 8, 16 and 20


def committed(directory: Path, **changes: object) -> int | None:
    with open_writer(directory / "other", **changes) as other:
        found = recover(directory / "store", other.layout)
    return None if found is None else found.rows


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with open_writer(tmp_path / "store") as writer:
        write_rows(writer, 0, ROWS)
    return tmp_path / "store"


def test_the_log_is_json_lines_of_small_records(store: Path) -> None:
    lines = (store / "manifest.jsonl").read_bytes().splitlines()
    records = [json.loads(line)["record"] for line in lines]
    assert records[0] == read_header(store)
    assert [record["rows"] for record in records[1:]] == [8, 16, 20]
    assert [set(record["crc"]) for record in records[1:]] == [{"states", "mask", "scale"}] * 3
    assert [key for keys, *_ in read_commits(store) for key in keys] == [key(row) for row in range(ROWS)]
    assert committed_rows(store) == ROWS
    assert b"loci" not in (store / "manifest.jsonl").read_bytes(), "side-car values belong in their own log"


def test_no_log_and_no_header_are_no_rows(tmp_path: Path, store: Path) -> None:
    for content in (b"", b"\n", b"{}\n", (store / "manifest.jsonl").read_bytes()[:40]):
        (store / "manifest.jsonl").write_bytes(content)
        assert committed(tmp_path) is None
    (store / "manifest.jsonl").unlink()
    assert committed(tmp_path) is None
    assert committed_rows(store) == 0


def test_a_log_cut_anywhere_ends_at_its_last_whole_line(store: Path) -> None:
    whole = (store / "manifest.jsonl").read_bytes()
    ends = list(accumulate(map(len, whole.splitlines(keepends=True))))
    rows_at = dict(zip(ends, (0, 8, 16, 20), strict=True))
    for cut in {*range(ends[0], len(whole), 37), *ends, *(end - 1 for end in ends[1:])}:
        (store / "manifest.jsonl").write_bytes(whole[:cut])
        assert committed(store.parent) == rows_at[max(end for end in ends if end <= cut)], cut


def test_a_flipped_bit_anywhere_in_the_log_ends_it_there(store: Path) -> None:
    whole = (store / "manifest.jsonl").read_bytes()
    starts = list(accumulate(map(len, whole.splitlines(keepends=True)), initial=0))
    for index in range(0, len(whole), 11):
        flipped = bytearray(whole)
        flipped[index] ^= 1 << index % 8
        (store / "manifest.jsonl").write_bytes(flipped)
        line = max(number for number, start in enumerate(starts) if start <= index)
        assert committed(store.parent) == {0: None, 1: 0, 2: 8, 3: 16}[line], index


@pytest.mark.parametrize("spec", ARRAYS, ids=lambda spec: spec.name)
def test_a_short_array_rolls_the_log_back_and_is_never_extended(store: Path, spec: object) -> None:
    path = store / ARRAYS[ARRAYS.index(spec)].file_name  # type: ignore[arg-type]
    row_bytes = path.stat().st_size // ROWS
    whole = path.read_bytes()
    for rows, left in ((20, 20), (19, 16), (16, 16), (15, 8), (8, 8), (7, 0), (0, 0)):
        path.write_bytes(whole[: rows * row_bytes])
        assert committed(store.parent) == left
    path.write_bytes(whole[: 16 * row_bytes - 1])
    assert committed(store.parent) == 8
    path.unlink()
    assert committed(store.parent) == 0


def test_side_car_texts_that_are_gone_or_altered_take_their_rows_along(store: Path) -> None:
    whole = (store / "sidecars.jsonl").read_bytes()
    (store / "sidecars.jsonl").write_bytes(whole[:-1])
    assert committed(store.parent) == 16
    (store / "sidecars.jsonl").write_bytes(b"[" + whole[1:-1] + b" ")
    assert committed(store.parent) == 16
    (store / "sidecars.jsonl").write_bytes(b" " + whole[1:])
    assert committed(store.parent) == 0
    (store / "sidecars.jsonl").unlink()
    assert committed(store.parent) == 0
    (store / "sidecars.jsonl").write_bytes(whole + b"uncommitted")
    assert committed(store.parent) == 20


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"key_config": {"encoder": "other"}}, "another key"),
        ({"arrays": ARRAYS[:2]}, "another arrays"),
        ({"commit_rows": 16}, "another batch rows"),
        ({"columns": {"contig": "string"}}, "another columns"),
        ({"sidecars": ("panel",)}, "another sidecars"),
        ({"key_column": "path"}, "another key column"),
    ],
)
def test_rows_of_another_layout_are_not_continued(store: Path, changes: dict[str, object], what: str) -> None:
    before = {path.name: path.read_bytes() for path in store.iterdir()}
    with pytest.raises(ConfigurationError, match=f"begun with {what}"):
        committed(store.parent, **changes)
    with pytest.raises(ConfigurationError, match=f"begun with {what}"):
        open_writer(store, **changes)  # type: ignore[arg-type]
    assert {path.name: path.read_bytes() for path in store.iterdir()} == before


STATES = ArraySpec("states", (32, 1024), "float16")


def layout(**changes: object) -> ArrayLayout:
    settings: dict[str, object] = {"key": "0" * 16, "arrays": (STATES,), "batch_rows": 64}
    return ArrayLayout(**{**settings, **changes})  # type: ignore[arg-type]


def test_checksum_is_castagnolis() -> None:
    # RFC 3720, B.4: 32 bytes of zeros, 32 of ones, 32 counting up.
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(np.arange(32, dtype=np.uint8)) == 0x46DD794E
    assert crc32c(b"6789", crc32c(b"12345")) == crc32c(b"123456789") == 0xE3069283


@each_row(
    ("arguments", "message"),
    [
        (("States", (1,), "int8"), "array name"),
        (("a/b", (1,), "int8"), "array name"),
        (("..", (1,), "int8"), "array name"),
        (("", (1,), "int8"), "array name"),
        (("a", (0,), "int8"), "positive dimensions"),
        (("a", (2, -1), "int8"), "positive dimensions"),
        (("a", (1,), "object"), "unknown dtype"),
        (("a", (1,), "bfloat16"), "unknown dtype"),
        (("a", (1,), "complex64"), "unknown dtype"),
        (("a", (1,), "<i2"), "unknown dtype"),
    ],
)
def test_arrays_that_cannot_be(arguments: tuple[str, tuple[int, ...], str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        ArraySpec(*arguments)


@each_row(
    ("changes", "message"),
    [
        ({"arrays": ()}, "no arrays"),
        ({"arrays": (STATES, STATES)}, "two files have the same name: got 'states.bin'"),
        ({"batch_rows": 0}, "at least 1"),
        ({"columns": (("start", "datetime"),)}, "unknown type"),
        ({"columns": (("row", "int64"),)}, "two columns have the same name: got 'row'"),
        ({"columns": (("panel_key", "int64"),), "sidecars": ("panel",)}, "two columns have the same name"),
        ({"columns": (("start", "int64"),), "key_column": "start"}, "two columns have the same name"),
        ({"sidecars": ("shape",)}, "two files have the same name: got 'shapes.json'"),
        ({"sidecars": ("../x",)}, "column name"),
    ],
)
def test_layouts_that_cannot_be(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        layout(**changes)


def test_layout_survives_json() -> None:
    written = layout(key_column="path", columns=(("start", "int64"),), sidecars=("panel", "allele"))
    assert layout_from_json(written.as_json(), "x") == written
    assert written.index_schema.names == ["row", "path", "start", "panel_key", "allele_key", "meta_json"]


ARRAY = layout().as_json()["arrays"][0]


@each_row(
    ("document", "message"),
    [
        ([], "is not a valid layout"),
        ({}, "is not a valid layout"),
        ({**layout().as_json(), "layout_version": 2}, "expected layout version 1, got 2"),
        ({**layout().as_json(), "batch_rows": "many"}, "is not a valid layout"),
        ({**layout().as_json(), "arrays": [{"name": "a"}]}, "is not a valid layout"),
        ({**layout().as_json(), "arrays": []}, "is not a valid layout"),
        ({**layout().as_json(), "batch_rows": True}, "is not a valid layout"),
        ({**layout().as_json(), "batch_rows": 64.0}, "is not a valid layout"),
        ({**layout().as_json(), "sidecars": "ab"}, "is not a valid layout"),
        ({**layout().as_json(), "arrays": [{**ARRAY, "shape": "35"}]}, "is not a valid layout"),
        ({**layout().as_json(), "arrays": [{**ARRAY, "more": 1}]}, "is not a valid layout"),
    ],
)
def test_a_document_that_is_no_layout(document: object, message: str) -> None:
    with pytest.raises(CorruptResourceError, match=message):
        layout_from_json(document, "shapes.json")
