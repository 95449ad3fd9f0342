from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from genolewm_assets.errors import CorruptResourceError, ResourceError
from genolewm_assets.store.arrays.finish import finish_store
from genolewm_assets.store.arrays.layout import crc32c
from genolewm_assets_tests.worlds.store.array_stores import FINGERPRINT, contents, finish, open_writer, write_rows


def test_the_marker_covers_the_checksums_and_they_cover_all_else(tmp_path: Path) -> None:
    files = contents(finish(tmp_path, 21))
    crc, complement = (int(text, 16) for text in files["_COMPLETE"].split())
    assert crc == crc32c(files["crc.json"]) == complement ^ 0xFFFFFFFF
    checksums = json.loads(files["crc.json"])
    covered = {f"{name}.bin" for name in checksums["arrays"]} | set(checksums["files"])
    assert covered == set(files) - {"crc.json", "_COMPLETE"}
    for name, text in checksums["files"].items():
        assert int(text, 16) == crc32c(files[name])
    for name, batches in checksums["arrays"].items():
        data, row_bytes = files[f"{name}.bin"], len(files[f"{name}.bin"]) // 21
        batch_bytes = 8 * row_bytes
        wanted = [crc32c(data[first : first + batch_bytes]) for first in range(0, len(data), batch_bytes)]
        assert [int(text, 16) for text in batches] == wanted


def test_shapes_say_rows_arrays_and_batches(tmp_path: Path) -> None:
    shapes = json.loads((finish(tmp_path, 21) / "shapes.json").read_bytes())
    assert (shapes["layout_version"], shapes["n_rows"], shapes["batch_rows"]) == (1, 21, 8)
    assert shapes["arrays"][0] == {"name": "states", "shape": [3, 5], "dtype": "float16"}


def test_finishing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    with open_writer(tmp_path) as writer:
        write_rows(writer, 0, 21)
        writer.commit()
        finish_store(tmp_path, writer.layout, writer._crc, 21, FINGERPRINT)
        before = contents(tmp_path)
        finish_store(tmp_path, writer.layout, writer._crc, 21, FINGERPRINT)
        assert contents(tmp_path) == before
    assert "manifest.jsonl" in before, "the log goes after the marker, so that a kill in between loses nothing"


def test_the_index_names_the_row_of_every_key(tmp_path: Path) -> None:
    table = pq.ParquetFile(finish(tmp_path, 21) / "index.parquet").read()
    assert table.column("row").to_pylist() == list(range(21))
    assert table.schema.field("key").nullable is False


@pytest.mark.parametrize("name", ["states.bin", "scale.bin", "manifest.jsonl"])
def test_files_that_another_process_changed_are_not_finished(tmp_path: Path, name: str) -> None:
    undisturbed = contents(finish(tmp_path / "undisturbed", 21))
    with open_writer(tmp_path / "s") as writer:
        write_rows(writer, 0, 21)
        writer.commit()
        whole = (tmp_path / "s" / name).read_bytes()
        (tmp_path / "s" / name).write_bytes(whole[:-9])
        with pytest.raises(CorruptResourceError, match=f"{name}: was changed by another process while it was written"):
            finish_store(tmp_path / "s", writer.layout, writer._crc, 21, FINGERPRINT)
        (tmp_path / "s" / name).unlink()
        with pytest.raises(ResourceError):
            finish_store(tmp_path / "s", writer.layout, writer._crc, 21, FINGERPRINT)
    assert "_COMPLETE" not in contents(tmp_path / "s")
    with open_writer(tmp_path / "s") as writer:
        write_rows(writer, writer.n_rows, 21)
        writer.finalize(FINGERPRINT)
    assert contents(tmp_path / "s") == undisturbed


def test_a_link_in_place_of_the_index_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"mine")
    with open_writer(tmp_path / "s") as writer:
        write_rows(writer, 0, 3)
        (tmp_path / "s" / "index.parquet").symlink_to(tmp_path / "elsewhere")
        writer.finalize(FINGERPRINT)
    assert (tmp_path / "elsewhere").read_bytes() == b"mine"
    assert not (tmp_path / "s" / "index.parquet").is_symlink()
