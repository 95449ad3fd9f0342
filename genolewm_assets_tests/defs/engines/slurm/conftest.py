"""The fixture of Slurm as a test tells it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from genolewm_assets_tests.defs.engines.slurm.told_slurm import Cluster


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    made = Cluster(tmp_path / "bin", tmp_path / "root/work/slurm/1")
    yield made
    assert not made.job.exists()
