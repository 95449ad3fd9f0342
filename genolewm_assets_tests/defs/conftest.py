"""A fresh tiny world per test, the built one, command lines, and Dagster at less CPU time per run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from genolewm_assets_tests.command_line import run
from genolewm_assets_tests.worlds.graph.built_world import BuiltWorld, everything_built
from genolewm_assets_tests.worlds.graph.tiny_world import TinyWorld


@pytest.fixture
def world(tmp_path: Path) -> TinyWorld:
    """Return sources, a root and an instance that the test may break."""
    return TinyWorld(tmp_path / "world")


@pytest.fixture
def unbuilt(tmp_path: Path) -> BuiltWorld:
    """Return such a world with the assets and jobs of the graph, in which nothing is built yet."""
    return BuiltWorld(tmp_path / "world")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> BuiltWorld:
    """Return a world in which everything is built; tests change copies of it."""
    return everything_built(tmp_path_factory)


@pytest.fixture
def copied(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Iterator[BuiltWorld]:
    """Return a copy of the built world, which the test may change; most modules call the fixture ``world``."""
    with everything_built(tmp_path_factory).copied_to(tmp_path / "world") as world:
        yield world


class CommandLine:
    """Runs command lines in the process of a test; what they set in the environment goes with the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capfd = monkeypatch, capfd
        self.out = self.err = ""
        monkeypatch.setattr(os, "environ", os.environ.copy())
        monkeypatch.delenv("DAGSTER_HOME", raising=False)

    def __call__(self, *arguments: object) -> int:
        """Return the exit code, and keep what was printed."""
        code = run(self._monkeypatch, *arguments)
        self.out, self.err = self._capfd.readouterr()
        return code


@pytest.fixture
def genolewm(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(monkeypatch, capfd)


@pytest.fixture(scope="session", autouse=True)
def _quick_dagster() -> None:
    """Let Dagster compute less for each run; see the module."""
    from genolewm_assets_tests.worlds.graph.quick_dagster import install

    install()
