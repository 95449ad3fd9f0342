"""The commands on caches: what they write, print and exit with."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from genolewm_assets.store.artefacts.published import Published
from genolewm_assets_tests.command_line import Command
from genolewm_assets_tests.worlds.lewm.cache_world import make_root
from genolewm_assets_tests.worlds.store.array_caches import build_cache, write_sources
from genolewm_assets_tests.worlds.store.array_stores import finish
from genolewm_assets_tests.worlds.store.plans import flip

Pairs = dict[str, tuple[Published, Published]]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Pairs]:
    root, pairs = make_root(tmp_path_factory.mktemp("built") / "root")
    return root.path, pairs


@pytest.fixture
def root(built: tuple[Path, Pairs], tmp_path: Path) -> Path:
    return Path(shutil.copytree(built[0], tmp_path / "root", symlinks=True))


def test_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    store = finish(tmp_path / "store", 21)
    monkeypatch.chdir(tmp_path)
    assert command("cache", "export", store, "--format", "parquet") == (0, "store.parquet: 21 rows\n", "")
    assert pq.ParquetFile(tmp_path / "store.parquet").read().num_rows == 21
    assert command("cache", "export", store) == (
        2, "", "store.parquet: a file of that name exists. Choose another output, or overwrite it (--force).\n"
    )  # fmt: skip
    assert command("cache", "export", "store", "--force").code == 0
    assert command("cache", "export", store, "--format", "arrow", "--output", tmp_path / "x.arrow").code == 0
    assert command("cache", "export", store, "--format", "csv").code == 2
    printed = command("cache", "export", store, "--force", "--json")
    assert (printed.code, json.loads(printed.out)) == (0, {"path": "store.parquet", "rows": 21})
    flip(store / "states.bin", 0)
    refused = command("cache", "export", store, "--output", "y.parquet")
    assert (refused.code, refused.err.count("\n")) == (4, 1)
    assert "states.bin: rows 0 to 7 differ from what was written" in refused.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store", "store.parquet", "x.arrow"]


def test_index_and_find(root: Path, built: tuple[Path, Pairs], command: Command) -> None:
    windows, cache = built[1]["chr20"]
    table = pq.ParquetFile(windows.file("windows.parquet")).read()
    digest, window_id = table["window_hash"][5].as_py().hex(), table["window_id"][5].as_py()
    location = f"embeddings/{cache.directory.name.partition('.')[0]}"
    refused = command("cache", "find", digest, "--root", root)
    assert refused.code == 4
    assert "there is no look-up of window hashes; " in refused.err
    assert command("cache", "index", "--root", root, "--check").code == 4
    said = f"{root}/embeddings: 7 caches, 88 rows, {{}} look-ups made, 0 caches not covered\n"
    assert command("cache", "index", "--root", root)[:2] == (0, said.format(7))
    export = ("cache", "index", "--root", root, "--sqlite", root.parent / "windows.sqlite")
    assert command(*export, "--check")[:2] == (0, said.format(0))
    assert (root.parent / "windows.sqlite").is_file()
    assert command(*export).code == 2
    assert command(*export, "--force").code == 0
    for wanted in (digest, window_id, digest.upper()):
        found = command("cache", "find", wanted, "--root", root)
        assert found[:2] == (0, f"{location} row 5 (embeddings/cache[chr20])\n")
    found = command("cache", "find", window_id, "--root", root, "--json")
    stated = [{"store": location, "row": 5, "label": "embeddings/cache[chr20]"}]
    assert (found.code, json.loads(found.out)) == (0, stated)
    nowhere = ("cache", "find", "0" * 64, "--root", root)
    assert command(*nowhere) == (4, "", f"{'0' * 64}: no cached window has this hash\n")
    assert command(*nowhere, "--json")[:2] == (4, "[]\n")
    assert command("cache", "find", "chr20:5", "--root", root).code == 2
    assert command("cache", "index", "--root", root / "embeddings").code == 4


def test_sweep(tmp_path: Path, command: Command) -> None:
    folder = tmp_path / "caches"
    old, new = (build_cache(folder, write_sources(tmp_path / "data", version)) for version in (1, 2))
    size_bytes = sum(path.stat().st_size for path in old.iterdir())
    line = f".gen/{old.name} (superseded, {size_bytes:,} bytes)"
    found = command("cache", "sweep", folder, "--dry-run")
    assert (found.code, found.out.splitlines()) == (0, [line, f"{size_bytes:,} bytes in 1 directory would be freed"])
    assert old.is_dir()
    found = command("cache", "sweep", folder, "--json")
    assert json.loads(found.out) == [{"path": f".gen/{old.name}", "size_bytes": size_bytes, "why": "superseded"}]
    assert (found.code, old.exists(), new.exists()) == (0, False, True)
    assert command("cache", "sweep", folder)[:2] == (0, "0 bytes in 0 directories freed\n")
    assert command("cache", "sweep", tmp_path / "none") == (
        4, "", f"{tmp_path / 'none'}: no such folder. Check the path.\n"
    )  # fmt: skip


def test_cache_verify_looks_at_the_manifest(root: Path, tmp_path: Path, command: Command) -> None:
    links = sorted(path for path in (root / "embeddings").iterdir() if path.is_symlink())
    verify = ("cache", "verify", root / "embeddings")
    assert command(*verify)[:2] == (0, "".join(f"{link}: intact: every checksum matches\n" for link in links))
    manifests = [link.resolve() / "manifest.json" for link in links]
    copied = Path(shutil.copytree(links[0].resolve(), tmp_path / "copied"))
    assert command("cache", "verify", copied).code == 0
    # Another code version is canonical JSON still, but not of the digest in the folder's name.
    content = manifests[0].read_bytes()
    manifests[0].chmod(0o644)
    manifests[0].write_bytes(content.replace(b'"code_version": "1"', b'"code_version": "2"'))
    assert manifests[0].read_bytes() != content
    manifests[1].parent.chmod(0o755)
    manifests[1].unlink()
    extra = links[2].resolve() / "extra.bin"
    extra.parent.chmod(0o755)
    extra.write_bytes(b"x")
    found = command(*verify)
    said = found.out.splitlines()
    assert found.code == 4
    assert f"{links[0]}/manifest.json: digest of the manifest differs from the one in the directory's name" in said[0]
    assert said[1].startswith(f"{links[1]}: ")
    assert said[1].endswith("manifest.json: the manifest is missing. Rebuild the asset.")
    assert said[2] == f"{links[2]}: {links[2]}/extra.bin: is not listed in the manifest"
    found = command(*verify, "--json")
    problems = json.loads(found.out)
    assert found.code == 4
    assert [bool(problems[str(link)]) for link in links] == [True] * 3 + [False] * (len(links) - 3)


def test_cache_verify_of_a_copy_compares_files_with_its_manifest(root: Path, tmp_path: Path, command: Command) -> None:
    link = next(path for path in (root / "embeddings").iterdir() if path.is_symlink())
    copied = Path(shutil.copytree(link.resolve(), tmp_path / "copied"))
    (copied / "manifest.json").chmod(0o644)
    content = (copied / "manifest.json").read_bytes()
    sha256 = json.loads(content)["files"][0]["sha256"]
    (copied / "manifest.json").write_bytes(content.replace(sha256.encode(), b"0" * 64))
    found = command("cache", "verify", copied)
    assert found.code == 4
    assert f"content differs: expected sha256 {'0' * 64}, got sha256 {sha256}" in found.out


def test_cache_verify_of_a_cache_without_manifest_compares_checksums(tmp_path: Path, command: Command) -> None:
    build_cache(tmp_path / "profiles", write_sources(tmp_path / "raw", 1))
    found = command("cache", "verify", tmp_path / "profiles")
    assert found.code == 0
    assert found.out.endswith("intact: every checksum matches\n")


def test_a_root_check_without_a_partner(tmp_path: Path, command: Command) -> None:
    found = command("root", "check", tmp_path, "--wait", "0.3")
    first, second = found.err.splitlines()
    assert (found.code, first) == (4, f"{tmp_path}: run this command on another machine too, now")
    seen = "no second run of this check was seen within 0.3 s. Run the command on another"
    assert second.startswith(f"{tmp_path}: {seen}")
    assert list(tmp_path.iterdir()) == []
