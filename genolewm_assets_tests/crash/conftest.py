"""Fixtures of the crash tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from genolewm_assets.store.artefacts.root import Root
from genolewm_assets_tests.faults.file_layer import without_syncs
from genolewm_assets_tests.worlds.store.array_stores import contents, finish
from genolewm_assets_tests.worlds.store.interrupted_store import ROWS
from genolewm_assets_tests.worlds.store.plans import new_root


@pytest.fixture
def no_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    without_syncs(monkeypatch)


@pytest.fixture
def undisturbed(tmp_path: Path) -> dict[str, bytes]:
    return contents(finish(tmp_path / "undisturbed", ROWS))


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return new_root(tmp_path / "root")
