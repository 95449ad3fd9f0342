"""``genolewm show`` prints what is published of every asset; DuckDB and polars read every table as the page says."""

from __future__ import annotations

import glob
import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import numpy as np
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from genolewm_assets.defs.assets.graph import GATED
from genolewm_assets.defs.web_pictures import find_picture
from genolewm_assets.store.artefacts.inventory import links
from genolewm_assets.store.artefacts.manifest import MANIFEST
from genolewm_assets_tests.defs.conftest import CommandLine
from genolewm_assets_tests.places import REPOSITORY
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.graph.built_world import BUILT, BuiltWorld
from genolewm_assets_tests.worlds.graph.tiny_world import RELEASES

#: One partition of every asset, the last that is built.
SHOWN = dict(BUILT)
#: Columns of the index of an array store that no schema describes.
UNDESCRIBED = {"meta_json", "path", "has_annotation", "panel_key", "allele_key"}


def folders(root: Path) -> dict[tuple[str, str | None], Path]:
    """Return the published folders by asset and partition, as the manifests say."""
    found = {link: json.loads((link / MANIFEST).read_text()) for link in links(root) if (link / MANIFEST).is_file()}
    return {(manifest["asset"], manifest["partition"]): link for link, manifest in found.items()}


@each_row("asset", [asset for asset in SHOWN if asset != "packages/current"])
def test_every_asset_is_shown(asset: str, built: BuiltWorld, genolewm: CommandLine) -> None:
    partition = SHOWN[asset]
    folder = folders(built.root)[asset, partition]
    words = ["show", asset, *([partition] if partition else []), "--root", built.root]
    assert genolewm(*words, "--json") == 0
    shown = json.loads(genolewm.out)
    assert (shown["asset"], shown["partition"], Path(shown["path"])) == (asset, partition, folder)
    assert shown["counts"] == json.loads((folder / MANIFEST).read_text())["counts"]
    files = sorted(path for path in folder.resolve().rglob("*.parquet"))
    assert sorted(folder.resolve() / name for table in shown["tables"] for name in table["files"]) == files
    for table in shown["tables"]:
        read = [pq.read_table(folder / name, partitioning=None) for name in table["files"]]
        assert table["rows"] == sum(map(len, read))
        kept = next((each for each in read if len(each)), read[0])
        assert [(one["name"], one["type"]) for one in table["columns"]] == [(f.name, str(f.type)) for f in kept.schema]
        assert {one["name"] for one in table["columns"] if not one["meaning"]} <= UNDESCRIBED
        assert [list(row) for row in table["head"]] == [kept.column_names] * min(5, len(kept))
        numbers = [f.name for f in kept.schema if pa.types.is_integer(f.type)]
        assert [[row[name] for name in numbers] for row in table["head"]] == [
            [row[name] for name in numbers] for row in kept.slice(0, 5).to_pylist()
        ]
    for array in (each for each in shown["arrays"] if each["files"][0].endswith(".npy")):
        stored = np.load(folder / array["files"][0])
        assert (tuple(array["shape"]), array["dtype"]) == (stored.shape, str(stored.dtype))
        assert list(map(str, array["first"])) == [
            str(value.decode() if isinstance(value, bytes) else value) for value in stored.ravel()[:4].tolist()
        ]
    # The page: every column, count and file of it is there.
    assert genolewm(*words, "--rows", 1) == 0
    text = genolewm.out
    for name in [*shown["counts"], *(one["name"] for table in shown["tables"] for one in table["columns"])]:
        assert name in text


def test_states_are_shown_by_shape_type_and_first_values(built: BuiltWorld, genolewm: CommandLine) -> None:
    folder = folders(built.root)["embeddings/cache", "chr17"]
    assert genolewm("show", "embeddings/cache", "chr17", "--root", built.root, "--json") == 0
    (array,) = json.loads(genolewm.out)["arrays"]
    stored = np.fromfile(folder / "states.bin", array["dtype"]).reshape(array["shape"])
    np.testing.assert_array_equal(np.array(array["first"], stored.dtype), stored.ravel()[:4])


def test_a_picture_is_that_of_the_materialisation(built: BuiltWorld, genolewm: CommandLine, tmp_path: Path) -> None:
    pictured = {asset for asset, declared in GATED.items() if declared.pictured and asset in SHOWN}
    for asset in sorted(pictured):
        file, (*partition,) = tmp_path / f"{asset.replace('/', '_')}.svg", filter(None, [SHOWN[asset]])
        assert genolewm("show", asset, *partition, "--root", built.root, "--picture", file, "--rows", 0) == 0
        event = built.instance.get_latest_materialization_event(dg.AssetKey(GATED[asset].path))
        assert event is not None
        entries = event.asset_materialization.metadata
        drawn = [find_picture(built.instance, asset, run_id=event.run_id, entry=name) for name in entries]
        assert file.read_bytes() in [picture for picture in drawn if picture]
    assert genolewm("show", "gnomad/shard", "--root", built.root, "--picture", tmp_path / "gnomad_shard.svg") == 2
    assert "--force" in genolewm.err
    assert genolewm("show", "reference/genome", "--root", built.root, "--picture", tmp_path / "none.svg") == 4
    assert "has no picture" in genolewm.err
    assert not (tmp_path / "none.svg").exists()


def test_the_package_in_use_and_the_newest_partition(built: BuiltWorld, genolewm: CommandLine) -> None:
    current = json.loads((built.root / "packages/current.json").read_text())
    assert genolewm("show", "packages/current", "--root", built.root, "--json") == 0
    assert Path(json.loads(genolewm.out)["path"]) == built.root / current["path"]
    assert genolewm("show", "clinvar/shard", "--root", built.root) == 0
    assert genolewm.out.startswith(f"clinvar/shard[{RELEASES[-1]}]: ")
    assert f"published too: {', '.join(RELEASES[:-1])}" in genolewm.out


@each_row(
    ("words", "near"),
    [
        (["gnomad/shrad"], "asset one of ['gnomad/shard'"),
        (["gnomad/shard", "chr71"], "partition one of ['chr21', 'chr17'"),
        (["tuples/frozen"], "asset one of ['"),
        (["packages/current", "2025"], "has no partitions"),
    ],
)
def test_a_wrong_name_lists_the_near_ones(
    words: list[str], near: str, built: BuiltWorld, genolewm: CommandLine
) -> None:
    assert genolewm("show", *words, "--root", built.root) == 4
    assert near in genolewm.err
    assert len(genolewm.err.splitlines()) == 1


def test_a_table_is_shown_without_dagster_and_torch(built: BuiltWorld) -> None:
    code = (
        "import sys; from genolewm_assets.cli import main\n"
        f"sys.argv = ['genolewm', 'show', 'gnomad/shard', 'chr17', '--root', {str(built.root)!r}]\n"
        "try: main()\n"
        "except SystemExit as stop: print(stop.code, {'dagster', 'torch', 'matplotlib'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0 set()"


def documented(reader: str) -> str:
    """Return the documented call that reads a glob, with a name in its place."""
    page = (REPOSITORY / "docs/tables.md").read_text()
    (call,) = re.findall(rf'\b({reader}\.read_parquet)\("[^"]*\*[^"]*"\)', page)
    return f"{call}(files)"


def globs(root: Path) -> dict[str, set[str]]:
    """Return globs of the published Parquet tables: what differs between the partitions of an asset is a star."""
    tables: dict[tuple[str, str, int], list[tuple[str, ...]]] = defaultdict(list)
    for (asset, _), folder in folders(root).items():
        for path in folder.resolve().rglob("*.parquet"):
            parts = (folder.relative_to(root) / path.relative_to(folder.resolve())).parts
            tables[asset, path.name, len(parts)].append(parts)
    found = defaultdict(set)
    for (asset, *_), paths in tables.items():
        stars = ["*" if len(set(parts)) > 1 else parts[0] for parts in zip(*paths, strict=True)]
        found[asset].add(str(root.joinpath(*stars)))
    return found


@pytest.mark.parametrize("reader", ["duckdb", "polars"])
def test_the_documented_line_reads_every_table(reader: str, built: BuiltWorld) -> None:
    call, patterns = documented(reader), globs(built.root)
    assert patterns.keys() == SHOWN.keys() - {"clinvar/release", "corpus/records", "packages/current"}
    for pattern in sorted(set().union(*patterns.values())):
        by_columns: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for path in sorted(glob.glob(pattern)):  # noqa: PTH207 - through links, as the readers do
            by_columns[tuple(pq.read_schema(path).names)].append(path)
        for paths in by_columns.values():
            files: Any = pattern if len(by_columns) == 1 else paths
            read = eval(call, {"duckdb": duckdb, "polars": polars, "files": files})
            theirs = read.to_arrow_table() if reader == "duckdb" else read.to_arrow()
            ours = pa.concat_tables([pq.read_table(path, partitioning=None) for path in paths])
            assert (theirs.num_rows, theirs.column_names) == (ours.num_rows, ours.column_names), pattern
            for field in ours.schema:
                if pa.types.is_integer(field.type) or pa.types.is_floating(field.type):
                    sums = [pc.sum(table[field.name].cast(pa.float64())).as_py() or 0 for table in (theirs, ours)]
                    assert sums[0] == pytest.approx(sums[1], rel=1e-12), (pattern, field.name)
