"""A fresh tiny world per test, and Dagster at less CPU time per run."""

from __future__ import annotations

from pathlib import Path

import pytest

from genolewm_assets_tests.worlds.graph.built_world import BuiltWorld, everything_built
from genolewm_assets_tests.worlds.graph.tiny_world import TinyWorld


@pytest.fixture
def world(tmp_path: Path) -> TinyWorld:
    """Return sources, a root and an instance that the test may break."""
    return TinyWorld(tmp_path / "world")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> BuiltWorld:
    """Return a world in which everything is built; tests change copies of it."""
    return everything_built(tmp_path_factory)


@pytest.fixture(scope="session", autouse=True)
def _quick_dagster() -> None:
    """Let Dagster compute less for each run; see the module."""
    from genolewm_assets_tests.worlds.graph.quick_dagster import install

    install()
