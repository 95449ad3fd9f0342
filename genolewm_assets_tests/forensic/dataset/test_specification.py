"""The text of the cache specification, walked name by name: each is a file, column, class, method or argument here."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from dataclasses import fields, is_dataclass

import pyarrow.parquet as pq
import pytest

from genolewm_assets import forensic, store
from genolewm_assets.forensic import MemmapCacheReader, MemmapCacheWriter
from genolewm_assets.store.arrays import keys, layout
from genolewm_assets_tests.places import SHARED_DATA
from genolewm_assets_tests.worlds.forensic.folders import open_dataset, write_folder, write_kit

TEXT = SHARED_DATA.parent / "specs" / "dataset-caching.txt"
pytestmark = pytest.mark.skipif(not TEXT.is_file(), reason="the specification (../shared/specs) is absent")

#: Names of the text that are not to be found here, each with what there is in its place.
INSTEAD = {
    "_recover_from_manifest": "opening a writer reads the commit log",
    "allele_annotation_json": "AlleleAnnotation.as_json",
    "adjusted_panel_json": "Panel.as_json",
    "json_string": "a value of a side-car",
    "mtime_ns": "a stamp beside the fingerprint; the content decides",
    "cache_dir_or_root": "the argument of the inspection tool",
    "dnanet_rd": "a folder of an example",
    "panel_js": "a variable of an example",
    "allele_js": "a variable of an example",
    "_index": "HIDDataset.index",
}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> forensic.HIDDataset:
    place = tmp_path_factory.mktemp("specification")
    paths = write_kit(place / "kit")
    return open_dataset(write_folder(place / "data"), paths, place / "caches", allow_missing_annotations=True)


@pytest.fixture(scope="module")
def text() -> str:
    return TEXT.read_text(encoding="utf-8")


def test_every_file_of_the_layout_is_there(dataset: forensic.HIDDataset, text: str) -> None:
    block = text[text.index("<cache_dir>/<key>/") : text.index("All three .bin files")]
    listed = re.findall(r"^    (\S+) +# +(.*)$", block, re.MULTILINE)
    assert len(listed) == 10
    for name, about in listed:
        assert (dataset.cache_directory / name).exists() == ("removed at finalize" not in about), name
        if shape := re.match(r"\((N(?:, D)?, L)\) +(\w+)", about):
            array = {"data.bin": 0, "annotation.bin": 1, "scaler.bin": 2}[name]
            row = dataset.reader.get_row(0)[array]
            sizes = {"N": len(dataset), "D": 4, "L": 1_024}
            assert (len(dataset), *row.shape) == tuple(sizes[axis] for axis in shape[1].split(", "))
            assert row.dtype == shape[2]
            size = (dataset.cache_directory / name).stat().st_size
            assert size == len(dataset) * row.size * row.dtype.itemsize
    about_index = dict(listed)["index.parquet"]
    columns = pq.ParquetFile(dataset.cache_directory / "index.parquet").schema_arrow.names
    assert set(about_index.removeprefix("per-row: ").split(", ")) <= set(columns)


def test_every_name_of_the_api_is_there(text: str) -> None:
    block = text[text.index("from dnanet.data.cache import (") :].partition("(\n")[2].partition("\n)")[0]
    listed = dict(re.findall(r"^ +(\w+), *(?:# (.*))?$", block, re.MULTILINE))
    assert len(listed) == 8
    for name in listed:
        assert hasattr(forensic, name) or hasattr(store, name), name
    entry = store.IndexEntry
    assert is_dataclass(entry)
    assert entry.__dataclass_params__.frozen  # type: ignore[attr-defined]
    named = listed["IndexEntry"].removeprefix("frozen dataclass: ").split(", ")
    assert [field.name for field in fields(entry)] == named
    assert len(store.compute_key({})) == int(re.search(r"(\d+)-char", listed["compute_key"])[1])
    digest = store.compute_fingerprint({}, {})["sha256"]
    assert re.fullmatch(r"[0-9a-f]{64}", str(digest))


def test_every_call_of_the_text_can_be_made(dataset: forensic.HIDDataset, text: str) -> None:
    calls = re.findall(r"\b(reader|writer)\.(\w+)\(([^)]*)\)", text)
    assert {name for _, name, _ in calls} == {"load_index", "get_row", "panel_json", "allele_json", "resume_paths"}
    for owner, name, arguments in calls:
        method = getattr(MemmapCacheReader if owner == "reader" else MemmapCacheWriter, name)
        inspect.signature(method).bind(*[None] * (1 + len(arguments.split(",")) if arguments else 1))
    for name in ("write", "finalize"):
        assert re.search(rf"\b{name}\(", text)
        assert callable(getattr(MemmapCacheWriter, name))
    reader = MemmapCacheReader(dataset.cache_directory)
    entry = reader.load_index()[0]
    data, ann, scaler = reader.get_row(entry.row)
    assert (data.shape, ann.shape, scaler.shape) == ((4, 1_024), (4, 1_024), (1_024,))
    assert json.loads(reader.panel_json(entry.panel_key) or "")["loci"]
    assert json.loads(reader.allele_json(entry.allele_key) or "")


def test_a_refusal_has_the_text_s_words(
    dataset: forensic.HIDDataset, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = re.search(r"RuntimeError: (.*?)\n", text)
    assert words is not None
    refused, advice = words[1].partition(":")[0], re.search(r"(Set load_in_memory=False)\.", text)
    assert advice is not None
    monkeypatch.setattr("genolewm_assets.store.arrays.memory.usable_memory_bytes", lambda: 10_000)
    root, paths = dataset.cache_directory.parent.parent / "data", dataset.scaling_strategy.panel_paths
    with pytest.raises(RuntimeError) as caught:
        open_dataset(root, paths, dataset.cache_directory.parent, allow_missing_annotations=True, load_in_memory=True)
    for part in (refused, "would use", "exceeds 50% of", advice[1]):
        assert part in str(caught.value)


def test_the_inspection_prints_what_the_text_shows(dataset: forensic.HIDDataset, text: str) -> None:
    shown = text[text.index("Typical output:") : text.index("API surface")]
    command = [sys.executable, "-m", "genolewm_assets.store.inspect", str(dataset.cache_directory)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    labels = re.findall(r"^ +([\w.]+(?: [\w()-]+)*)(?=[: ]{2,}|:)", shown, re.MULTILINE)
    assert len(labels) >= 12
    lost = [label for label in labels if label.split(" (")[0] not in printed]
    assert lost == []


def test_no_identifier_of_the_text_is_left_over(dataset: forensic.HIDDataset, text: str) -> None:
    written = set(re.findall(r"\b_?[a-z]+(?:_[a-z]+)+\b|\b[A-Z]+_[A-Z]+\b|\b_[a-z]+\b|\b_[A-Z]+\b", text))
    known = {
        name
        for each in (forensic.HIDDataset, MemmapCacheReader, MemmapCacheWriter, forensic.HIDImage)
        for name in dir(each)
    }
    known |= {*dir(forensic), *dir(store), *dir(keys), *dir(layout), *inspect.signature(forensic.HIDDataset).parameters}
    known |= {name.partition(".")[0] for name in ("_COMPLETE", *map(str, dataset.cache_directory.iterdir()))}
    known |= {field.name for field in fields(store.IndexEntry)}
    known |= set(json.loads((dataset.cache_directory / "fingerprint.json").read_bytes()))
    assert sorted(written - known - INSTEAD.keys()) == []
    assert sorted(INSTEAD.keys() - set(re.findall(r"\w+", text))) == []
