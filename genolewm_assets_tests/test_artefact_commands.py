"""The commands on caches: what they write, print and exit with."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from genolewm_assets.store.artefacts.published import Published
from genolewm_assets_tests.command_line import run
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


def test_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    store = finish(tmp_path / "store", 21)
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, "cache", "export", store, "--format", "parquet") == 0
    assert pq.ParquetFile(tmp_path / "store.parquet").read().num_rows == 21
    assert capfd.readouterr().out == "store.parquet: 21 rows\n"
    assert run(monkeypatch, "cache", "export", store) == 2
    assert capfd.readouterr().err == (
        "store.parquet: a file of that name exists. Choose another output, or overwrite it (--force).\n"
    )
    assert run(monkeypatch, "cache", "export", "store", "--force") == 0
    assert run(monkeypatch, "cache", "export", store, "--format", "arrow", "--output", tmp_path / "x.arrow") == 0
    assert run(monkeypatch, "cache", "export", store, "--format", "csv") == 2
    capfd.readouterr()
    assert run(monkeypatch, "cache", "export", store, "--force", "--json") == 0
    assert json.loads(capfd.readouterr().out) == {"path": "store.parquet", "rows": 21}
    flip(store / "states.bin", 0)
    capfd.readouterr()
    assert run(monkeypatch, "cache", "export", store, "--output", "y.parquet") == 4
    (line,) = capfd.readouterr().err.splitlines()
    assert "states.bin: rows 0 to 7 differ from what was written" in line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store", "store.parquet", "x.arrow"]


def test_index_and_find(
    root: Path, built: tuple[Path, Pairs], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    windows, cache = built[1]["chr20"]
    table = pq.ParquetFile(windows.file("windows.parquet")).read()
    digest, window_id = table["window_hash"][5].as_py().hex(), table["window_id"][5].as_py()
    location = f"embeddings/{cache.directory.name.partition('.')[0]}"
    assert run(monkeypatch, "cache", "find", digest, "--root", root) == 4
    assert "there is no look-up of window hashes; " in capfd.readouterr().err
    assert run(monkeypatch, "cache", "index", "--root", root, "--check") == 4
    capfd.readouterr()
    assert run(monkeypatch, "cache", "index", "--root", root) == 0
    said = f"{root}/embeddings: 7 caches, 88 rows, {{}} look-ups made, 0 caches not covered\n"
    assert capfd.readouterr().out == said.format(7)
    exported = root.parent / "windows.sqlite"
    assert run(monkeypatch, "cache", "index", "--root", root, "--check", "--sqlite", exported) == 0
    assert capfd.readouterr().out == said.format(0)
    assert exported.is_file()
    assert run(monkeypatch, "cache", "index", "--root", root, "--sqlite", exported) == 2
    assert run(monkeypatch, "cache", "index", "--root", root, "--sqlite", exported, "--force") == 0
    capfd.readouterr()
    for wanted in (digest, window_id, digest.upper()):
        assert run(monkeypatch, "cache", "find", wanted, "--root", root) == 0
        assert capfd.readouterr().out == f"{location} row 5 (embeddings/cache[chr20])\n"
    assert run(monkeypatch, "cache", "find", window_id, "--root", root, "--json") == 0
    assert json.loads(capfd.readouterr().out) == [{"store": location, "row": 5, "label": "embeddings/cache[chr20]"}]
    assert run(monkeypatch, "cache", "find", "0" * 64, "--root", root) == 4
    assert capfd.readouterr().err == f"{'0' * 64}: no cached window has this hash\n"
    assert run(monkeypatch, "cache", "find", "0" * 64, "--root", root, "--json") == 4
    assert json.loads(capfd.readouterr().out) == []
    assert run(monkeypatch, "cache", "find", "chr20:5", "--root", root) == 2
    assert run(monkeypatch, "cache", "index", "--root", root / "embeddings") == 4


def test_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "caches"
    old, new = (build_cache(folder, write_sources(tmp_path / "data", version)) for version in (1, 2))
    size_bytes = sum(path.stat().st_size for path in old.iterdir())
    assert run(monkeypatch, "cache", "sweep", folder, "--dry-run") == 0
    line = f".gen/{old.name} (superseded, {size_bytes:,} bytes)"
    assert capfd.readouterr().out.splitlines() == [line, f"{size_bytes:,} bytes in 1 directory would be freed"]
    assert old.is_dir()
    assert run(monkeypatch, "cache", "sweep", folder, "--json") == 0
    found = json.loads(capfd.readouterr().out)
    assert found == [{"path": f".gen/{old.name}", "size_bytes": size_bytes, "why": "superseded"}]
    assert (old.exists(), new.exists()) == (False, True)
    assert run(monkeypatch, "cache", "sweep", folder) == 0
    assert capfd.readouterr().out == "0 bytes in 0 directories freed\n"
    assert run(monkeypatch, "cache", "sweep", tmp_path / "none") == 4
    assert capfd.readouterr().err == f"{tmp_path / 'none'}: no such folder. Check the path.\n"


def test_cache_verify_looks_at_the_manifest(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    links = sorted(path for path in (root / "embeddings").iterdir() if path.is_symlink())
    command = ["cache", "verify", root / "embeddings"]
    assert run(monkeypatch, *command) == 0
    assert capfd.readouterr().out == "".join(f"{link}: intact: every checksum matches\n" for link in links)
    manifests = [link.resolve() / "manifest.json" for link in links]
    copied = Path(shutil.copytree(links[0].resolve(), tmp_path / "copied"))
    assert run(monkeypatch, "cache", "verify", copied) == 0

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
    capfd.readouterr()
    assert run(monkeypatch, *command) == 4
    said = capfd.readouterr().out.splitlines()
    assert f"{links[0]}/manifest.json: digest of the manifest differs from the one in the directory's name" in said[0]
    assert said[1].startswith(f"{links[1]}: ")
    assert said[1].endswith("manifest.json: the manifest is missing. Rebuild the asset.")
    assert said[2] == f"{links[2]}: {links[2]}/extra.bin: is not listed in the manifest"
    assert run(monkeypatch, *command, "--json") == 4
    problems = json.loads(capfd.readouterr().out)
    assert [bool(problems[str(link)]) for link in links] == [True] * 3 + [False] * (len(links) - 3)


def test_cache_verify_of_a_copy_compares_its_files_with_its_manifest(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    link = next(path for path in (root / "embeddings").iterdir() if path.is_symlink())
    copied = Path(shutil.copytree(link.resolve(), tmp_path / "copied"))
    (copied / "manifest.json").chmod(0o644)
    content = (copied / "manifest.json").read_bytes()
    sha256 = json.loads(content)["files"][0]["sha256"]
    (copied / "manifest.json").write_bytes(content.replace(sha256.encode(), b"0" * 64))
    assert run(monkeypatch, "cache", "verify", copied) == 4
    assert f"content differs: expected sha256 {'0' * 64}, got sha256 {sha256}" in capfd.readouterr().out


def test_cache_verify_of_a_cache_without_manifest_compares_checksums(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    build_cache(tmp_path / "profiles", write_sources(tmp_path / "raw", 1))
    assert run(monkeypatch, "cache", "verify", tmp_path / "profiles") == 0
    assert capfd.readouterr().out.endswith("intact: every checksum matches\n")


def test_a_root_check_without_a_partner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "root", "check", tmp_path, "--wait", "0.3") == 4
    first, second = capfd.readouterr().err.splitlines()
    assert first == f"{tmp_path}: run this command on another machine too, now"
    assert second.startswith(
        f"{tmp_path}: no second run of this check was seen within 0.3 s. Run the command on another"
    )
    assert list(tmp_path.iterdir()) == []
