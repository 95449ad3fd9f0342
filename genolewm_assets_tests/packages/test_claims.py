"""Damage of a package: flipped bytes are found by their digests, and what resealed records state by its rows."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.genome import Split
from genolewm_assets.packages.damage import find_package_damage
from genolewm_assets.packages.reader import open_tables, verify_package
from genolewm_assets.progress import NO_PROGRESS, ByteCount
from genolewm_assets.store.artefacts.manifest import read_manifest
from genolewm_assets_tests.worlds.store.plans import flip

TABLE = "variants/train.parquet"
MANY = 10**18
REFERENCE, DBSNP = "windows.reference.train", "alleles.dbsnp.train"


def reseal(package: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change ``package.json``, and make every digest, size and count of the record files right again."""
    info = json.loads((package / "package.json").read_bytes())
    for entry in info["files"]:
        measure(package, entry)
    for split, stated in info["splits"].items():
        names = (f"data/{split}-", f"variants/{split}.", f"controls/{split}.")
        ours = sorted(f"{e['sha256']}  {e['path']}\n" for e in info["files"] if e["path"].startswith(names))
        stated["sha256"] = hashlib.sha256("".join(ours).encode()).hexdigest()
    change(info)
    write(package / "package.json", info)
    reseal_manifest(package)


def reseal_manifest(package: Path) -> None:
    counts = json.loads((package / "package.json").read_bytes())["counts"]
    manifest = json.loads((package / "manifest.json").read_bytes()) | {"counts": counts}
    for entry in manifest["files"]:
        measure(package, entry)
    write(package / "manifest.json", manifest)


def measure(package: Path, entry: dict[str, Any]) -> None:
    data = (package / entry["path"]).read_bytes()
    entry |= {"sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}


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
        (lambda info: info["counts"].update({REFERENCE: MANY}), f"json: states another '{REFERENCE}': expected"),
        (lambda info: info["counts"].update({DBSNP: MANY}), f"states another '{DBSNP}': expected 0, got {MANY}"),
        (lambda info: info["caches"][0].update(rows=MANY), "has another number of windows than the package states"),
        (lambda info: info["files"][-1].update(rows=MANY), "different number of rows of 'variants/validation.parquet"),
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
        open_tables(copy, allow_unaudited=True)


def test_pages_that_are_none(copy: Path, package) -> None:
    data = (copy / TABLE).read_bytes()
    (copy / TABLE).write_bytes(data[:4] + b"\xff" * 396 + data[400:])
    reseal(copy, unchanged)
    (fault,) = faults(copy, package)
    assert f"copy/{TABLE}: cannot be read as Parquet" in fault
    opened = open_tables(copy, allow_unaudited=True)
    for read in (opened.variants, lambda split: list(opened.variant_batches(split, ["chrom", "alt"]))):
        with pytest.raises(CorruptResourceError, match=f"{TABLE}: cannot be read as Parquet"):
            read(Split.TRAIN)


def damaged(directory: Path) -> list[str]:
    return [damage.file for damage in find_package_damage(directory, ByteCount(NO_PROGRESS, 0))]


def files_of(directory: Path) -> list[str]:
    found = [str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()]
    return sorted(set(found) - {"provenance.json"})


def alone(manifest: bytes, at: int) -> str | None:
    """Return the file whose entry in the manifest a byte is of, if ``package.json`` does not list the file."""
    entry = manifest[manifest.rfind(b"{", 0, at) : manifest.find(b"}", at)]
    return next(
        (name for name in ("package.json", "README.md", "croissant.json") if f'"path": "{name}"'.encode() in entry),
        None,
    )


def digests(directory: Path) -> dict[str, str]:
    return {entry.path: entry.sha256 for entry in read_manifest(directory).files}


def test_the_digests_of_the_manifest_are_those_of_sha256sum(package):
    assert damaged(package.directory) == []
    lines = "".join(f"{sha256}  {path}\n" for path, sha256 in digests(package.directory).items())
    command = ["sha256sum", "--check", "--strict", "--quiet"]
    result = subprocess.run(command, cwd=package.directory, input=lines, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout + result.stderr) == (0, "")
    assert sorted([*digests(package.directory), "manifest.json"]) == files_of(package.directory)


@pytest.mark.nightly
@pytest.mark.parametrize("place", [pytest.param("generation", marks=pytest.mark.slow), "copy"])
def test_one_flipped_byte_anywhere_is_found_and_its_file_named(package, tmp_path, place):
    target = tmp_path / ".gen" / package.directory.name if place == "generation" else tmp_path / "copy"
    shutil.copytree(package.directory, target)
    for name in files_of(target):
        path = target / name
        original = path.read_bytes()
        steps = 40 if name in {"package.json", "manifest.json"} else 3
        for at in {0, len(original) - 1, *(len(original) * i // steps for i in range(1, steps))}:
            flip(path, at)
            found = damaged(target)
            if name == "manifest.json" and place == "copy" and not found:
                # Under another name nothing holds the manifest's digest: what it says of files and rows is compared.
                assert at not in range(original.index(b'"counts"'), original.index(b'"inputs"'))
            elif place == "copy" and name == "manifest.json" and (lone := alone(original, at)):
                # No second record tells whether the file or the manifest was altered.
                assert found in ([name], [lone])
            else:
                assert found == [name], (name, at)
            path.write_bytes(original)
    assert damaged(target) == []


def test_a_digest_in_any_record_is_compared(copy: Path) -> None:
    """One file of each folder; ``package.json`` is also changed with a manifest that is right for it."""
    manifest, info = (copy / "manifest.json").read_bytes(), (copy / "package.json").read_bytes()
    lone = {"README.md", "croissant.json", "package.json"}
    in_each_folder = {path.partition("/")[0]: path for path in digests(copy)}
    assert in_each_folder.keys() == {"arrays", "controls", "data", "holdouts", "variants", *lone}
    for path in in_each_folder.values():
        digest = digests(copy)[path].encode()
        other = digest.translate(bytes.maketrans(b"0123456789abcdef", b"123456789abcdef0"))
        (copy / "manifest.json").write_bytes(manifest.replace(digest, other))
        assert damaged(copy) == [path if path in lone else "manifest.json"], path
        (copy / "manifest.json").write_bytes(manifest)
        if path not in lone:
            (copy / "package.json").write_bytes(info.replace(digest, other))
            assert damaged(copy) == ["package.json"], path
            reseal_manifest(copy)
            assert damaged(copy) == ["package.json"], path
            (copy / "package.json").write_bytes(info)
            (copy / "manifest.json").write_bytes(manifest)
    assert damaged(copy) == []


def test_missing_extra_and_replaced_files_are_named(package, copy):
    for name in (TABLE, "holdouts/alleles.parquet", "README.md"):
        (copy / name).unlink()
    (copy / "data/extra.parquet").write_bytes(b"?")
    (copy / "holdouts/alleles.parquet").symlink_to(package.directory / "holdouts/alleles.parquet")
    (copy / "README.md").mkdir()
    assert damaged(copy) == ["README.md", "data/extra.parquet", "holdouts/alleles.parquet", "variants/train.parquet"]


@pytest.mark.parametrize("name", ["manifest.json", "package.json"])
def test_a_missing_record_is_named(package, tmp_path, name):
    target = shutil.copytree(package.directory, tmp_path / ".gen" / package.directory.name)
    (target / name).unlink()
    assert damaged(target) == [name]
