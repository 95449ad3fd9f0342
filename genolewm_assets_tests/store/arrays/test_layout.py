from __future__ import annotations

import numpy as np
import pytest

from genolewm_assets.errors import ConfigurationError, CorruptResourceError
from genolewm_assets.store import IndexEntry
from genolewm_assets.store.arrays.layout import ArrayLayout, ArraySpec, crc32c, layout_from_json

STATES = ArraySpec("states", (32, 1024), "float16")


def layout(**changes: object) -> ArrayLayout:
    settings: dict[str, object] = {"key": "0" * 16, "arrays": (STATES,), "batch_rows": 64}
    return ArrayLayout(**{**settings, **changes})  # type: ignore[arg-type]


def test_row_sizes_are_those_of_the_specification() -> None:
    # 325 profiles of 6 dyes x 4,096 scan points: 15.97 MB, 7.99 MB and 5.32 MB in the specification's report.
    assert 325 * ArraySpec("data", (6, 4096), "int16").row_bytes == 15_974_400
    assert 325 * ArraySpec("annotation", (6, 4096), "int8").row_bytes == 7_987_200
    assert 325 * ArraySpec("scaler", (4096,), "float32").row_bytes == 5_324_800
    assert ArraySpec("scale", (), "bool").row_bytes == 1


def test_checksum_is_castagnolis() -> None:
    # RFC 3720, B.4: 32 bytes of zeros, 32 of ones, 32 counting up.
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(np.arange(32, dtype=np.uint8)) == 0x46DD794E
    assert crc32c(b"6789", crc32c(b"12345")) == crc32c(b"123456789") == 0xE3069283


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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
        (
            {**layout().as_json(), "arrays": [{**layout().as_json()["arrays"][0], "shape": "35"}]},
            "is not a valid layout",
        ),
        ({**layout().as_json(), "arrays": [{**layout().as_json()["arrays"][0], "more": 1}]}, "is not a valid layout"),
    ],
)
def test_a_document_that_is_no_layout(document: object, message: str) -> None:
    with pytest.raises(CorruptResourceError, match=message):
        layout_from_json(document, "shapes.json")


@pytest.mark.parametrize(("rows", "batches"), [(0, 0), (1, 1), (63, 1), (64, 1), (65, 2)])
def test_batches(rows: int, batches: int) -> None:
    assert layout().n_batches(rows) == batches


def test_an_index_entry_without_annotation_columns() -> None:
    assert IndexEntry(0, "a.hid") == IndexEntry(0, "a.hid", True, None, None, "{}")
