"""A small package with its reference and ClinVar VCF, not to be changed, and a copy of the package that may be."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from genolewm_assets_tests.worlds.lewm.audited_world import AuditedWorld, make_audited_world


@pytest.fixture(scope="session")
def audited(tmp_path_factory: pytest.TempPathFactory) -> AuditedWorld:
    return make_audited_world(tmp_path_factory.mktemp("audited"))


@pytest.fixture
def package(audited: AuditedWorld, tmp_path: Path) -> Path:
    return Path(shutil.copytree(audited.package, tmp_path / "package"))
