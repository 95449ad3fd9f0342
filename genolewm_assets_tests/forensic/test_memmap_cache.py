"""The cache of the specification: its names, sizes and behaviour."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from genolewm_assets.errors import ConfigurationError, InputError
from genolewm_assets.forensic import MemmapCacheReader
from genolewm_assets.store.arrays.keys import (
    cache_key_dir,
    validate_sources,
)
from genolewm_assets.store.arrays.layout import IndexEntry
from genolewm_assets.store.arrays.report import inspect_cache
from genolewm_assets.store.arrays.stamps import SourceChangedError, stamp_file
from genolewm_assets_tests.worlds.store.array_caches import published_bytes
from genolewm_assets_tests.worlds.store.profiles import (
    CONFIG,
    PANEL_FILE,
    SHAPE,
    make_profile,
    open_writer,
    write_sources,
)


@pytest.mark.slow
def test_the_figures_of_the_specification(tmp_path: Path) -> None:
    """325 profiles of 6 dyes and 4,096 scan points; 26 panels and 24 annotations that differ."""
    files = write_sources(tmp_path / "data", 325)
    panels = [[{"name": f"marker{n}", "offset": key, "bins": [0.1] * 40} for n in range(24)] for key in range(26)]
    # One to all rows: what is compared is sizes, and drawing is what would take the time.
    plain = make_profile(files, 0, (6, 4096))
    stamps = {name: stamp_file(path) for name, path in files.items()}
    with open_writer(tmp_path / "caches", files, shape=(6, 4096), commit_rows=64) as writer:
        for row in range(325):
            path = f"run/{row:03}.hid"
            shared = {"panel": panels[row % 26], "alleles": [row % 24]}
            writer.write(replace(plain, path=path, meta={}, stamps={path: stamps[path]}, **shared))
        generation = writer.finalize()
    sizes = {path.name: path.stat().st_size for path in generation.iterdir()}
    assert sizes["data.bin"] == 325 * 6 * 4096 * 2 == 15_974_400
    assert sizes["annotation.bin"] == 325 * 6 * 4096 == 7_987_200
    assert sizes["scaler.bin"] == 325 * 4096 * 4 == 5_324_800
    assert sizes["index.parquet"] < 11_000
    report = inspect_cache(writer.directory)
    assert (report.rows, report.sidecars["panel"]["unique"], report.sidecars["allele"]["unique"]) == (325, 26, 24)
    assert report.realise_bytes == 15_974_400 + 7_987_200 + 5_324_800
    for line in ("data.bin                  15.97 MB", "annotation.bin             7.99 MB", "realize: 0.03 GB"):
        assert line in report.as_text()
    assert sum(report.index_string_bytes.values()) < 30_000
    assert MemmapCacheReader(writer.directory).size_bytes == report.realise_bytes


def test_profiles_come_back_as_they_were(cache: Path, files: dict[str, Path]) -> None:
    reader = MemmapCacheReader(cache, check=True)
    index = reader.load_index()
    assert len(reader) == len(index) == 10
    columns = pq.ParquetFile(cache / "index.parquet").schema_arrow.names
    assert columns == ["row", "path", "has_annotation", "panel_key", "allele_key", "meta_json"]
    for row, entry in enumerate(index):
        profile = make_profile(files, row)
        annotated = profile.annotation is not None
        assert isinstance(entry, IndexEntry)
        assert (entry.row, entry.path, entry.has_annotation) == (row, profile.path, annotated)
        assert json.loads(entry.meta_json) == {"injection": row}
        data, annotation, scaler = reader.get_row(row)
        assert (data.dtype, annotation.dtype, scaler.dtype) == (np.int16, np.int8, np.float32)
        np.testing.assert_array_equal(data, profile.data)
        np.testing.assert_array_equal(annotation, profile.annotation if annotated else np.zeros(SHAPE))
        np.testing.assert_array_equal(scaler, np.asarray(profile.scaler, np.float32))
        assert json.loads(reader.panel_json(entry.panel_key) or "") == profile.panel
        assert reader.alleles(entry.allele_key) == profile.alleles
    assert [entry.has_annotation for entry in index].count(False) == 2


def test_equal_panels_are_one_whatever_the_order_of_their_keys(cache: Path) -> None:
    panels, alleles = (json.loads((cache / name).read_bytes()) for name in ("panels.json", "alleles.json"))
    assert sorted(panels) == ["0", "1", "2", "3"]
    assert sorted(alleles) == ["0", "1", "2"]
    assert [entry.panel_key for entry in MemmapCacheReader(cache).load_index()] == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]


_BUILD_IN_ANOTHER_PROCESS = """
import sys
from pathlib import Path
from genolewm_assets_tests.worlds.store.profiles import build_cache
loci = {"D3", "vWA", "FGA", "TH01", "AMEL"}
print(list(loci))
files = {"panel.xml": Path(sys.argv[1], "panel.xml")}
files |= {f"run/{row:03}.hid": Path(sys.argv[1], f"run/{row:03}.hid") for row in range(10)}
build_cache(Path(sys.argv[2]), files)
"""


@pytest.mark.slow
def test_the_bytes_do_not_depend_on_the_hash_seed(cache: Path, files: dict[str, Path], tmp_path: Path) -> None:
    orders = set()
    for seed in ("0", "1"):
        command = [sys.executable, "-c", _BUILD_IN_ANOTHER_PROCESS, str(tmp_path / "data"), str(tmp_path / seed)]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        found = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        orders.add(found.stdout)
        other = cache_key_dir(tmp_path / seed, cache.name)
        assert published_bytes(other) == published_bytes(cache)
    assert len(orders) == 2, "the processes hash differently"


def test_profiles_without_annotation_are_dropped_and_count_all_the_same(tmp_path: Path, files: dict[str, Path]) -> None:
    with open_writer(tmp_path / "caches", files, allow_missing_annotations=False) as writer:
        kept = [writer.write(make_profile(files, row)) for row in range(10)]
        link = writer.finalize()
    assert kept == [row % 5 != 4 for row in range(10)]
    assert writer.dropped_paths == ["run/004.hid", "run/009.hid"]
    index = MemmapCacheReader(link).load_index()
    assert len(index) == 8
    assert all(entry.has_annotation for entry in index)
    files["run/004.hid"].write_text("another content")
    assert not validate_sources(link, CONFIG, files)


@pytest.mark.parametrize("dropped", [False, True], ids=["kept", "dropped"])
def test_a_sample_that_changes_meanwhile_is_refused(tmp_path: Path, files: dict[str, Path], dropped: bool) -> None:
    with open_writer(tmp_path / "caches", files, allow_missing_annotations=False) as writer:
        assert writer.write(make_profile(files, 4 if dropped else 0)) is not dropped
        files["run/004.hid" if dropped else "run/000.hid"].write_text("another content")
        with pytest.raises(SourceChangedError, match=r"changed since the build began \('run/00[04]\.hid'"):
            writer.finalize()


@pytest.mark.parametrize("values", [{"annotation": np.full(SHAPE, 128)}, {"scaler": np.full(SHAPE[1], 1e300)}])
def test_values_that_do_not_fit_are_refused(tmp_path: Path, files: dict[str, Path], values: dict[str, Any]) -> None:
    with open_writer(tmp_path / "caches", files) as writer:
        with pytest.raises(InputError, match="does not fit its dtype"):
            writer.write(replace(make_profile(files, 0), **values))
        assert writer.resume_paths() == set()


def test_values_that_fit_may_have_any_dtype(tmp_path: Path, files: dict[str, Path]) -> None:
    profile = make_profile(files, 0)
    data, annotation = np.asarray(profile.data, np.int64), np.asarray(profile.annotation, np.float64)
    with open_writer(tmp_path / "caches", files) as writer:
        writer.write(replace(profile, data=data, annotation=annotation, scaler=list(range(SHAPE[1]))))
        reader = MemmapCacheReader(writer.finalize())
    for found, wanted in zip(reader.get_row(0), (data, annotation, np.arange(SHAPE[1])), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_what_a_profile_must_have(tmp_path: Path, files: dict[str, Path]) -> None:
    profile = make_profile(files, 0)
    panel = profile.stamps[PANEL_FILE]
    with open_writer(tmp_path / "caches", files) as writer:
        for error, problem, change in (
            (InputError, "the sample has no stamp", {"stamps": {PANEL_FILE: panel}}),
            (ConfigurationError, "a file was not declared", {"stamps": {**profile.stamps, "ladder.hid": panel}}),
            (InputError, "wrong shape", {"scaler": np.zeros(5)}),
            (InputError, "cannot be written as JSON", {"panel": {"loci": {"a set"}}}),
            (InputError, "cannot be written as JSON", {"meta": {"size": float("nan")}}),
        ):
            with pytest.raises(error, match=problem):
                writer.write(replace(profile, **change))
        writer.write(profile)
        with pytest.raises(InputError, match="a row with this key was written before"):
            writer.write(profile)
