from __future__ import annotations

from pathlib import Path

import pytest

from genolewm_assets.errors import MissingResourceError
from genolewm_assets.store.arrays.report import find_caches, inspect_cache
from genolewm_assets_tests.worlds.store.array_stores import contents, finish, open_writer, write_rows


def test_a_finished_store(tmp_path: Path) -> None:
    directory = finish(tmp_path / "s", 21)
    report = inspect_cache(directory)
    assert (report.complete, report.rows, report.realise_bytes) == (True, 21, 861)
    assert report.files == {name: len(data) for name, data in contents(directory).items()}
    assert report.arrays["states"] == "(21, 3, 5) float16"
    assert report.index_schema["panel_key"] == "int32"
    assert set(report.index_string_bytes) == {"key", "contig", "meta_json"}
    panel = report.sidecars["panel"]
    assert (panel.unique, panel.mean_bytes, panel.max_bytes) == (4, 31, 31)
    text = report.as_text()
    for line in (
        "  complete marker:  True",
        "  rows (n):         21",
        "  panels.json:   4 unique of 21 rows (avg=31 B, max=31 B)",
        "  memmap realize: 0.00 GB if load_in_memory=True",
    ):
        assert line in text.splitlines()
    assert report.as_dict()["sidecars"] == {
        "allele": {"unique": 3, "mean_bytes": 3, "max_bytes": 3},
        "panel": {"unique": 4, "mean_bytes": 31, "max_bytes": 31},
    }


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
    with pytest.raises(MissingResourceError, match="holds no array store"):
        list(find_caches(tmp_path))


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
