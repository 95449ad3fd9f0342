from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.store.arrays.checksums import batch_checksums_from_json, file_checksums_from_json, rows_from_json
from genolewm_assets.store.arrays.layout import MOST, layout_from_json
from genolewm_assets_tests.worlds.store.array_stores import finish

ROWS = 21


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finish(tmp_path_factory.mktemp("array") / "store", ROWS)


@pytest.fixture
def document(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / "crc.json").read_bytes())
    return found


def test_what_was_written_is_read(directory: Path, document: dict[str, Any]) -> None:
    shapes = json.loads((directory / "shapes.json").read_bytes())
    assert rows_from_json(shapes, "x") == ROWS
    files = file_checksums_from_json(document, "x")
    assert set(files) == {"index.parquet", "shapes.json", "fingerprint.json", "panels.json", "alleles.json"}
    assert all(f"{crc:08x}" == document["files"][name] for name, crc in files.items())
    assert batch_checksums_from_json(document, layout_from_json(shapes, "x"), ROWS, "x") == document["arrays"]


@pytest.mark.parametrize("n_rows", [-1, MOST + 1, 10**30, 21.0, "21", True, None, [], float("nan")])
def test_row_counts_that_are_none(n_rows: object) -> None:
    for document in ({"n_rows": n_rows}, n_rows, {}):
        with pytest.raises(CorruptResourceError, match="x: invalid row count: expected 0 to"):
            rows_from_json(document, "x")


@pytest.mark.parametrize("crc", [None, 5, "", "0", "0123456g", "0x123456", "0123456A", "012345678", ["0" * 8]])
def test_checksums_that_are_none(directory: Path, document: dict[str, Any], crc: object) -> None:
    layout = layout_from_json(json.loads((directory / "shapes.json").read_bytes()), "x")
    with pytest.raises(CorruptResourceError, match="has no checksums of files"):
        file_checksums_from_json({**document, "files": {"shapes.json": crc}}, "x")
    for crcs in ([crc] * 3, crc, ["0" * 8] * 2):
        wrong = {**document, "arrays": {**document["arrays"], "mask": crcs}}
        with pytest.raises(CorruptResourceError, match="wrong checksums of array 'mask': expected 3 of 8 hex digits"):
            batch_checksums_from_json(wrong, layout, ROWS, "x")


@pytest.mark.parametrize("name", ["../outside", "/dev/zero", "states.bin"])
def test_other_files_and_arrays(directory: Path, document: dict[str, Any], name: str) -> None:
    layout = layout_from_json(json.loads((directory / "shapes.json").read_bytes()), "x")
    with pytest.raises(CorruptResourceError, match="describes other files"):
        batch_checksums_from_json({**document, "files": {**document["files"], name: "0" * 8}}, layout, ROWS, "x")
    with pytest.raises(CorruptResourceError, match="describes other arrays"):
        batch_checksums_from_json({**document, "arrays": {**document["arrays"], name: []}}, layout, ROWS, "x")


def test_documents_of_another_kind() -> None:
    for document in ([], None, {}, {"layout_version": 2}):
        with pytest.raises(CorruptResourceError, match="cannot be read by this code: expected layout version 1"):
            file_checksums_from_json(document, "x")
