from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from genolewm_assets.errors import CorruptResourceError, MissingResourceError, ResourceError
from genolewm_assets.store.arrays.checksums import batch_checksums_from_json, file_checksums_from_json, rows_from_json
from genolewm_assets.store.arrays.finish import finish_store
from genolewm_assets.store.arrays.layout import MOST, crc32c, layout_from_json
from genolewm_assets.store.arrays.report import find_caches, inspect_cache
from genolewm_assets_tests.rows import each_row
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


@pytest.mark.parametrize("name", ["states.bin", "scale.bin", "manifest.jsonl"])
def test_files_that_another_process_changed_are_not_finished(tmp_path: Path, name: str) -> None:
    undisturbed = contents(finish(tmp_path / "undisturbed", 21))
    with open_writer(tmp_path / "s") as writer:
        write_rows(writer, 0, 21)
        writer.commit()
        (tmp_path / "s" / name).write_bytes((tmp_path / "s" / name).read_bytes()[:-9])
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


def test_a_finished_store(tmp_path: Path) -> None:
    directory = finish(tmp_path / "s", 21)
    report = inspect_cache(directory)
    assert (report.complete, report.rows, report.realise_bytes) == (True, 21, 861)
    assert report.files == {name: len(data) for name, data in contents(directory).items()}
    assert report.arrays["states"] == "(21, 3, 5) float16"
    assert report.index_schema["panel_key"] == "int32"
    assert set(report.index_string_bytes) == {"key", "contig", "meta_json"}
    lines = ("  rows (n):         21", "  panels.json:   4 unique of 21 rows (avg=31 B, max=31 B)")
    assert set(lines) < set(report.as_text().splitlines())
    alleles, panels = ({"unique": n, "mean_bytes": size, "max_bytes": size} for n, size in ((3, 3), (4, 31)))
    assert report.as_dict()["sidecars"] == {"allele": alleles, "panel": panels}


def test_an_unfinished_store(tmp_path: Path) -> None:
    with open_writer(tmp_path) as writer:
        write_rows(writer, 0, 9)
    report = inspect_cache(tmp_path)
    assert (report.complete, report.rows) == (False, 9)
    assert "  committed rows:   9" in report.as_text().splitlines()
    assert report.as_dict()["complete"] is False


def test_a_folder_without_a_store(tmp_path: Path) -> None:
    with pytest.raises(MissingResourceError, match="holds no array store"):
        inspect_cache(tmp_path)
    with pytest.raises(MissingResourceError, match="the directory does not exist"):
        list(find_caches(tmp_path / "none"))


def test_a_tree_shows_published_stores_once_and_unfinished_ones(tmp_path: Path) -> None:
    finish(tmp_path / "embeddings" / ".gen" / "b.0123456789ab", 3)
    (tmp_path / "embeddings" / "b").symlink_to(".gen/b.0123456789ab")
    finish(tmp_path / "embeddings" / "a", 3)
    (tmp_path / "embeddings" / "dangling").symlink_to("nowhere")
    with open_writer(tmp_path / "work" / "x" / "resume.1") as writer:
        write_rows(writer, 0, 3)
    found = [str(path.relative_to(tmp_path)) for path in find_caches(tmp_path)]
    assert sorted(found) == ["embeddings/a", "embeddings/b", "work/x/resume.1"]
    assert list(find_caches(tmp_path / "embeddings" / "b")) == [tmp_path / "embeddings" / "b"]


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


@each_row("n_rows", [-1, MOST + 1, 10**30, 21.0, "21", True, None, [], float("nan")])
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
