"""Fixtures of the store's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from genolewm_assets.store.artefacts.root import Root
from genolewm_assets_tests.worlds.store.array_caches import write_sources


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path / "root", lock_wait_s=0.2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "folder"
    path.mkdir()
    return path


@pytest.fixture
def cache_dir(tmp_path: Path) -> Path:
    return tmp_path / "caches"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Sources of a small cache."""
    return write_sources(tmp_path / "data", 1)
