"""Every table of the built package through the readers of the field: mlcroissant, datasets, DuckDB, polars, pandas."""

from __future__ import annotations

import fnmatch
import json
import math
import os
import subprocess
import sys
from itertools import islice
from pathlib import Path

import duckdb
import mlcroissant
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from genolewm_assets.package_build.citing import CitationFormat, cite_package
from genolewm_assets.packages.info import PackageInfo, read_package_info
from genolewm_assets.packages.references import read_latest
from genolewm_assets_tests.command_line import Command
from genolewm_assets_tests.worlds.graph.built_world import everything_built
from genolewm_assets_tests.worlds.graph.tiny_world import RELEASES

# What mlcroissant calls in rdflib and pandas is deprecated there.
pytestmark = [
    pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame.reset_index"),
]

_DATASETS = """
import json, socket, sys
def refuse(*args, **kwargs):
    raise AssertionError("a connection was attempted")
socket.socket.connect = socket.getaddrinfo = refuse
import datasets, glob, yaml
import pyarrow.parquet as pq
datasets.disable_progress_bars()
folder, cache = sys.argv[1:]
configs, seen = yaml.safe_load(open(f"{folder}/README.md").read().split("---\\n")[1])["configs"], {}
for config in configs:
    for entry in config["data_files"]:
        patterns = [entry["path"]] if isinstance(entry["path"], str) else entry["path"]
        paths = [path for pattern in patterns for path in sorted(glob.glob(f"{folder}/{pattern}"))]
        expected = [row for path in paths for row in pq.ParquetFile(path).read().to_pylist()]
        for streaming in (False, True):
            loaded = datasets.load_dataset(
                folder, config["config_name"], split=entry["split"], streaming=streaming, cache_dir=cache
            )
            assert list(loaded) == expected, (config, streaming)
        seen[config["config_name"]] = seen.get(config["config_name"], 0) + len(expected)
json.dump(seen, sys.stdout)
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = everything_built(tmp_path_factory)
    return built.root / read_latest(built.root, RELEASES[-1]).path


@pytest.fixture(scope="module")
def info(package: Path) -> PackageInfo:
    return read_package_info(package)


@pytest.fixture(scope="module")
def dataset(package: Path) -> mlcroissant.Dataset:
    return mlcroissant.Dataset(jsonld=str(package / "croissant.json"))


def tables_of(package: Path) -> dict[str, list[str]]:
    """Return the files of each record set that has some, as the document states them."""
    document = json.loads((package / "croissant.json").read_text())
    listed = {node["@id"]: node for node in document["distribution"]}
    paths = sorted(path for path, node in listed.items() if node["encodingFormat"].endswith("parquet"))
    found = {}
    for record_set in document["recordSet"]:
        sources = [field["source"] for field in record_set["field"] if "source" in field]
        for source in sources[:1]:
            node = listed[(source.get("fileSet") or source["fileObject"])["@id"]]
            patterns = node["includes"] if node["@type"] == "cr:FileSet" else [node["@id"]]
            found[record_set["@id"]] = [p for p in paths if any(fnmatch.fnmatch(p, pattern) for pattern in patterns)]
    return found


def plain(value: object) -> object:
    """Return what mlcroissant gives as pyarrow does: text is bytes there, missing may be NaN, numbers are of NumPy."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    number = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(number, float) and math.isnan(number) else number


def as_bytes(value: object) -> object:
    return value.encode() if isinstance(value, str) else value


def test_mlcroissant_finds_nothing_to_warn_of(package: Path, caplog: pytest.LogCaptureFixture) -> None:
    metadata = mlcroissant.Dataset(jsonld=str(package / "croissant.json")).metadata
    assert (metadata.ctx.issues.errors, metadata.ctx.issues.warnings, caplog.records) == (set(), set(), [])
    assert metadata.ctx.conforms_to.value == "http://mlcommons.org/croissant/1.1"
    stated = (metadata.data_collection, metadata.data_biases, metadata.personal_sensitive_information)
    assert all((*stated, metadata.data_limitations, metadata.data_use_cases, metadata.data_release_maintenance_plan))


def test_mlcroissant_loads_the_values_of_every_table(package: Path, dataset: mlcroissant.Dataset) -> None:
    tables = tables_of(package)
    assert {"windows", "alleles", "benches", "controls", "holdout_intervals", "unmasked_pieces_reference"} < set(tables)
    assert set(tables) | {"splits", "holdouts"} == {node.uuid for node in dataset.metadata.record_sets}
    for name, paths in tables.items():
        read = [pq.ParquetFile(package / path).read() for path in paths]
        flat = [
            f.name for f in read[0].schema if not (pa.types.is_list(f.type) and pa.types.is_struct(f.type.value_type))
        ]
        expected = [row for table in read for row in table.select(flat).to_pylist()][:1_000]
        records = [
            {key.partition("/")[2]: plain(value) for key, value in record.items()}
            for record in islice(dataset.records(name), 1_000)
        ]
        for record in records if name.startswith("unmasked") else ():
            del record["piece"], record["row"]
        assert records == [{key: as_bytes(value) for key, value in row.items()} for row in expected], name


def test_duckdb_polars_and_pandas_read_the_same_tables(package: Path, info: PackageInfo) -> None:
    paths = [entry.path for entry in info.files if entry.rows is not None]
    assert len(paths) > 10
    for path in paths:
        file = package / path
        expected = pq.ParquetFile(file).read().to_pylist()
        assert duckdb.read_parquet(str(file)).to_arrow_table().to_pylist() == expected, path
        assert pl.read_parquet(file).to_arrow().to_pylist() == expected, path
        framed = pd.read_parquet(file, dtype_backend="pyarrow")
        assert pa.Table.from_pandas(framed, preserve_index=False).to_pylist() == expected, path


def test_the_citation_is_printed(package: Path, command: Command) -> None:
    for form in CitationFormat:
        assert command("package", "cite", package, "--format", form) == (0, f"{cite_package(package, form)}\n", "")
    printed = json.loads(command("package", "cite", package, "--json").out)
    assert printed == {"format": "text", "citation": cite_package(package)}
    assert command("package", "cite", package.parent).code == 4


@pytest.mark.nightly
def test_datasets_reads_the_same_tables_streaming_and_not(package: Path, info: PackageInfo, tmp_path: Path) -> None:
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-c", _DATASETS, str(package), str(tmp_path / "cache")]
    done = subprocess.run(command, env=os.environ | offline, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["windows"] == sum(info.splits[role].windows for role in ("validation", "test"))
    assert seen["pieces_reference"] + seen["pieces_corpus"] == sum(ref.rows for ref in info.pieces)
