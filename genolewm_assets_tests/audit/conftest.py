"""A small package with its reference and ClinVar VCF, not to be changed."""

from __future__ import annotations

import pytest

from genolewm_assets_tests.worlds.lewm.audited_world import AuditedWorld, make_audited_world


@pytest.fixture(scope="session")
def audited(tmp_path_factory: pytest.TempPathFactory) -> AuditedWorld:
    return make_audited_world(tmp_path_factory.mktemp("audited"))
