from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from genolewm_assets.lewm.packages.damage import find_package_damage
from genolewm_assets.progress import NO_PROGRESS, ByteCount
from genolewm_assets.store.artefacts.manifest import read_manifest


def damaged(directory: Path) -> list[str]:
    return [damage.file for damage in find_package_damage(directory, ByteCount(NO_PROGRESS, 0))]


def files_of(directory: Path) -> list[str]:
    found = [str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()]
    return sorted(set(found) - {"provenance.json"})


def alone(manifest: bytes, at: int) -> str | None:
    """Return the file whose entry in the manifest a byte is of, if ``package.json`` does not list the file."""
    entry = manifest[manifest.rfind(b"{", 0, at) : manifest.find(b"}", at)]
    return next((name for name in ("package.json", "README.md") if f'"path": "{name}"'.encode() in entry), None)


def digests(directory: Path) -> dict[str, str]:
    return {entry.path: entry.sha256 for entry in read_manifest(directory).files}


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x01
    path.write_bytes(bytes(data))


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


@pytest.mark.nightly
def test_every_digest_in_every_record_is_compared(package, tmp_path):
    target = tmp_path / "copy"
    shutil.copytree(package.directory, target)
    for record in ("manifest.json", "package.json"):
        original = (target / record).read_bytes()
        for path, digest in digests(package.directory).items():
            if digest.encode() in original:
                flip(target / record, original.index(digest.encode()) + 5)
                assert damaged(target) in ([record], [path] if path in {"README.md", "package.json"} else [record])
                (target / record).write_bytes(original)


def test_missing_extra_and_replaced_files_are_named(package, tmp_path):
    target = tmp_path / "copy"
    shutil.copytree(package.directory, target)
    (target / "variants/train.parquet").unlink()
    (target / "data/extra.parquet").write_bytes(b"?")
    (target / "holdouts/alleles.parquet").unlink()
    (target / "holdouts/alleles.parquet").symlink_to(package.directory / "holdouts/alleles.parquet")
    (target / "README.md").unlink()
    (target / "README.md").mkdir()
    assert damaged(target) == ["README.md", "data/extra.parquet", "holdouts/alleles.parquet", "variants/train.parquet"]


@pytest.mark.parametrize("name", ["manifest.json", "package.json"])
def test_a_missing_record_is_named(package, tmp_path, name):
    target = tmp_path / ".gen" / package.directory.name
    shutil.copytree(package.directory, target)
    (target / name).unlink()
    assert damaged(target) == [name]
