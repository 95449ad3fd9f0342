"""A package whose digests were made right again after a change: what it states is compared with its rows."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.genome import Split
from genolewm_assets.lewm.packages.reader import open_tables, verify_package

TABLE = "variants/train.parquet"
MANY = 10**18


def reseal(package: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change ``package.json``, and make every digest, size and count of the record files right again."""
    info = json.loads((package / "package.json").read_bytes())

    def measure(entry: dict[str, Any]) -> None:
        data = (package / entry["path"]).read_bytes()
        entry |= {"sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}

    for entry in info["files"]:
        measure(entry)
    for split, stated in info["splits"].items():
        names = (f"data/{split}-", f"variants/{split}.", f"controls/{split}.")
        ours = sorted(f"{e['sha256']}  {e['path']}\n" for e in info["files"] if e["path"].startswith(names))
        stated["sha256"] = hashlib.sha256("".join(ours).encode()).hexdigest()
    change(info)
    write(package / "package.json", info)
    manifest = json.loads((package / "manifest.json").read_bytes()) | {"counts": info["counts"]}
    for entry in manifest["files"]:
        measure(entry)
    write(package / "manifest.json", manifest)


def write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, sort_keys=True, indent=2, ensure_ascii=False) + "\n")


def unchanged(_: dict[str, Any]) -> None:
    pass


def foreign(column: str, text: str) -> Callable[[Path], None]:
    """Return a change of the last value of a column."""

    def change(path: Path) -> None:
        table = pq.read_table(path)
        at, values = table.schema.get_field_index(column), table[column].to_pylist()
        pq.write_table(table.set_column(at, table.schema.field(at), pa.array([*values[:-1], text])), path)

    return change


@pytest.fixture
def copy(package, tmp_path: Path) -> Path:
    return Path(shutil.copytree(package.directory, tmp_path / "copy"))


def faults(copy: Path, package: Any) -> list[str]:
    return [str(finding) for finding in verify_package(copy, cache_root=package.directory.parents[3])]


def test_a_package_that_was_sealed_again_unchanged_passes(copy: Path, package) -> None:
    reseal(copy, unchanged)
    assert faults(copy, package) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda info: info["splits"]["train"].update(windows=MANY), "copy/package.json: states other figures of train"),
        (lambda info: info["splits"]["test"].update(controls=MANY), "copy/package.json: states other figures of test"),
        (lambda info: info["splits"]["test"].update(sha256="0" * 64), "copy/package.json: states other figures of tes"),
        (lambda info: info["splits"].pop("test"), "copy/package.json: states other figures of test than its files ha"),
        (
            lambda info: info["counts"].update({"windows.reference.train": MANY}),
            "copy/package.json: states another 'windows.reference.train': expected",
        ),
        (
            lambda info: info["counts"].update({"alleles.dbsnp.train": MANY}),
            f"copy/package.json: states another 'alleles.dbsnp.train': expected 0, got {MANY}",
        ),
        (lambda info: info["caches"][0].update(rows=MANY), "has another number of windows than the package states"),
        (
            lambda info: info["files"][-1].update(rows=MANY),
            "states a different number of rows of 'variants/validation.parquet",
        ),
    ],
)
def test_what_is_stated_of_the_rows(copy: Path, package, change: Callable[..., object], message: str) -> None:
    reseal(copy, change)
    (fault,) = faults(copy, package)
    assert message in fault


@pytest.mark.parametrize(
    ("name", "column", "text"),
    [
        ("data/train-00000-of-00001.parquet", "sequence", "n\0<z"),
        ("data/train-00000-of-00001.parquet", "left_flank", "ACGTN"),
        (TABLE, "alt", "n\0<z"),
        (TABLE, "ref", ""),
        ("controls/test.parquet", "sequence", "acgt"),
        ("holdouts/alleles.parquet", "alt", "<DEL>"),
        ("holdouts/contexts.parquet", "right_context", "ACG-"),
    ],
)
def test_bases_that_are_none(copy: Path, package, name: str, column: str, text: str) -> None:
    foreign(column, text)(copy / name)
    reseal(copy, unchanged)
    assert faults(copy, package) == [f"copy/{name}: column {column!r} has other letters than bases: {text!r}"]


@pytest.mark.parametrize("content", [b"", b"PAR1 no Parquet at all PAR1", b"\0" * 4_096])
def test_a_parquet_file_that_is_none(copy: Path, package, content: bytes) -> None:
    (copy / TABLE).write_bytes(content)
    reseal(copy, unchanged)
    (fault,) = faults(copy, package)
    assert f"copy/{TABLE}: cannot be read as Parquet" in fault
    with pytest.raises(CorruptResourceError, match=f"{TABLE}: cannot be read as Parquet"):
        open_tables(copy)


def test_pages_that_are_none(copy: Path, package) -> None:
    data = (copy / TABLE).read_bytes()
    (copy / TABLE).write_bytes(data[:4] + b"\xff" * 396 + data[400:])
    reseal(copy, unchanged)
    (fault,) = faults(copy, package)
    assert f"copy/{TABLE}: cannot be read as Parquet" in fault
    opened = open_tables(copy)
    for read in (opened.variants, lambda split: list(opened.variant_batches(split, ["chrom", "alt"]))):
        with pytest.raises(CorruptResourceError, match=f"{TABLE}: cannot be read as Parquet"):
            read(Split.TRAIN)
