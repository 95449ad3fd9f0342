"""A fresh tiny world per test."""

from __future__ import annotations

from pathlib import Path

import pytest

from genolewm_assets_tests.tiny_world import TinyWorld


@pytest.fixture
def world(tmp_path: Path) -> TinyWorld:
    """Return sources, a root and an instance that the test may break."""
    return TinyWorld(tmp_path / "world")
