"""Fixtures of the forensic tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from genolewm_assets_tests.worlds.store.profiles import build_cache, write_sources


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    return write_sources(tmp_path / "data", 10)


@pytest.fixture
def cache(tmp_path: Path, files: dict[str, Path]) -> Path:
    return build_cache(tmp_path / "caches", files)
