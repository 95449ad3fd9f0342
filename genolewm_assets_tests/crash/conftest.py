"""Fixtures of the crash tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from genolewm_assets.store import Root


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path / "root", lock_wait_s=30)
