"""Worlds whose ClinVar releases nobody has registered, and the sensor on them."""

from __future__ import annotations

from pathlib import Path

import pytest
import tenacity

from genolewm_assets.defs.operations import clinvar_sensor
from genolewm_assets_tests.worlds.graph.sensor_world import Ticks, unregistered_world
from genolewm_assets_tests.worlds.graph.tiny_world import TinyWorld


@pytest.fixture
def unregistered(tmp_path: Path) -> TinyWorld:
    return unregistered_world(tmp_path / "world")


@pytest.fixture
def ticks(world: TinyWorld) -> Ticks:
    return Ticks(world)


@pytest.fixture
def inputs_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let sensor and schedule take everything that a release reads for published, and wait for no server."""
    monkeypatch.setattr(clinvar_sensor, "missing_inputs", lambda *_: [])
    monkeypatch.setattr(clinvar_sensor, "_PAUSE", tenacity.wait_none())
