"""Fixtures shared by every test module."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of real sample data that lies beside the repository, or skip."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the real sample data (../shared/data beside the repository) is absent")
    return SHARED_DATA
