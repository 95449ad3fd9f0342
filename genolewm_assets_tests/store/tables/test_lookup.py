"""Tables found by asset and partition are those that were written; what does not fit is named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from genolewm_assets.errors import CorruptResourceError, GenoLeWMError, MissingResourceError
from genolewm_assets.store import open_frame, open_table
from genolewm_assets.store.artefacts.build import build
from genolewm_assets.store.artefacts.published import ArtefactId
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets_tests.worlds.store.plans import flip, make_plan, new_root

VARIANTS = pa.table({"pos": [3, 9, 12], "stars": pa.array([1, None, 4], pa.int8()), "ref": ["A", "C", "GT"]})
REJECTS = pa.table({"line": [7]})


def bytes_of(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


def publish(root: Root, asset: str, partition: str | None, location: str, **tables: pa.Table) -> Path:
    files = {f"{name}.parquet": bytes_of(table) for name, table in tables.items()}
    return build(root, make_plan(files, artefact=ArtefactId(asset, partition), location=location)).directory


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = new_root(tmp_path / "root")
    publish(root, "gnomad/shard", "chr21", "gnomad/4.1/chr21", variants=VARIANTS, rejects=REJECTS)
    publish(root, "windows/index", "chr21", "windows/default/chr21", windows=VARIANTS)
    publish(root, "reference/genome", None, "reference/genome", contigs=REJECTS)
    for digest in ("a" * 12, "b" * 12):
        publish(root, "packages/split", "2025-01-05", f"packages/2025-01-05/{digest}", windows=VARIANTS)
    return root


def test_a_table_is_read_by_asset_and_partition(root: Root) -> None:
    assert open_table(root.path, "gnomad/shard", "chr21", file="variants.parquet") == VARIANTS
    assert open_table(str(root.path), "windows/index", "chr21", columns=["ref"]) == VARIANTS.select(["ref"])
    assert open_table(root.path, "reference/genome") == REJECTS
    assert open_table(root.path, "packages/2025-01-05/" + "b" * 12) == VARIANTS


def test_a_frame_keeps_integers_with_missing_values(root: Root) -> None:
    frame = open_frame(root.path, "windows/index", "chr21")
    assert frame["stars"].dtype == pd.ArrowDtype(pa.int8())
    assert frame["stars"].isna().tolist() == [False, True, False]
    assert frame["pos"].tolist() == [3, 9, 12]
    assert pa.Table.from_pandas(frame, preserve_index=False).to_pydict() == VARIANTS.to_pydict()


@pytest.mark.parametrize(
    ("arguments", "file", "message"),
    [
        (("gnomad/shard", "chr22"), None, r"shard\[chr22\]: is not published: expected partition one of \['chr21'"),
        (
            ("gnomad/shrad", "chr21"),
            None,
            r"shrad\[chr21\]: is not published: expected asset one of \['gnomad/shard'\], and 3 m",
        ),
        (("gnomad/shard", "chr21"), None, r"several tables: expected file= one of \['rejects.parquet', 'variants.parq"),
        (("gnomad/shard", "chr21"), "variant.parquet", r"no such table: .* got 'variant.parquet'"),
        (("packages/split", "2025-01-05"), None, r"at several paths: expected the path of one of \['packages/"),
        (("windows/index",), None, r"windows/index: has partitions: expected partition one of \['chr21'\]"),
    ],
)
def test_what_does_not_fit_is_named(root: Root, arguments: tuple[str, ...], file: str | None, message: str) -> None:
    with pytest.raises(MissingResourceError, match=message):
        open_table(root.path, *arguments, file=file)


def test_changed_bytes_are_refused(root: Root) -> None:
    path = next((root.path / "windows/default/.gen").rglob("windows.parquet"))
    path.chmod(0o644)
    flip(path, 8)
    with pytest.raises(CorruptResourceError, match=r"windows/index\[chr21\] .*content differs from the manifest"):
        open_table(root.path, "windows/index", "chr21")


def test_a_folder_that_is_no_root_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GenoLeWMError, match="not a root"):
        open_table(tmp_path, "gnomad/shard", "chr21")


def test_pandas_is_imported_by_frames_alone(root: Root) -> None:
    code = (
        "import sys; from genolewm_assets.store import open_frame, open_table;"
        f"open_table({str(root.path)!r}, 'reference/genome'); print('pandas' in sys.modules);"
        f"open_frame({str(root.path)!r}, 'reference/genome'); print('pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
