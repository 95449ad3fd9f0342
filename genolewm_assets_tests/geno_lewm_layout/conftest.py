"""The published geno-lewm 0.2.1 in an environment of its own, and the built world with its package."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

import pytest

from genolewm_assets.packages.references import read_latest
from genolewm_assets_tests.worlds.graph.built_world import BuiltWorld, everything_built
from genolewm_assets_tests.worlds.graph.tiny_world import RELEASES
from genolewm_assets_tests.worlds.once import built_once

GENO_LEWM = "geno-lewm==0.2.1"


def download(folder: Path, *options: str) -> Path:
    """Download one file of geno-lewm from the package index; without an index the test is skipped."""
    asked = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *options, GENO_LEWM, "--dest", folder]
    found = subprocess.run(asked, check=False, capture_output=True, text=True)
    if found.returncode:
        pytest.skip(f"the package index does not offer {GENO_LEWM}: {found.stderr.strip()[-200:]}")
    (path,) = folder.iterdir()
    return path


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the programs of an environment with geno-lewm and what its trainer needs, from the package index."""
    download(tmp_path_factory.mktemp("wheel"))

    def build(folder: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        same = [f"{name}=={version(name).partition('+')[0]}" for name in ("torch", "pyarrow", "safetensors")]
        wanted = [GENO_LEWM, *same, "transformers<5"]
        subprocess.run([folder / "bin/pip", "install", "--quiet", "--no-cache-dir", *wanted], check=True)

    return built_once(tmp_path_factory, "geno_lewm_environment", build) / "bin"


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the package ``tools`` of geno-lewm's source distribution, which makes its data folders."""
    archive = download(tmp_path_factory.mktemp("source"), "--no-binary", "geno-lewm")
    folder = tmp_path_factory.mktemp("tools")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    (root,) = folder.iterdir()
    return root


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> BuiltWorld:
    return everything_built(tmp_path_factory)


@pytest.fixture(scope="module")
def package(built: BuiltWorld) -> Path:
    latest = read_latest(built.root, RELEASES[1])
    assert latest is not None
    return built.root / latest.path
