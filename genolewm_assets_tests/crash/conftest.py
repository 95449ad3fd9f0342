"""Fixtures of the crash tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from genolewm_assets.store import Root
from genolewm_assets_tests.store.plans import new_root


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return new_root(tmp_path / "root")
