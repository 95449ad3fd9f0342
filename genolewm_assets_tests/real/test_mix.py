"""What a trainer is served from the real data, whatever the size of the corpus."""

from __future__ import annotations

import pytest

from genolewm_assets.packages.mix import Shares
from genolewm_assets.packages.reader import open_tables
from genolewm_assets_tests.real.conftest import RealRoot
from genolewm_assets_tests.worlds.lewm.larger_corpus import served_with


@pytest.mark.parametrize("times", [1, 10, 100])
def test_the_declared_mix_is_served(real: RealRoot, times: int) -> None:
    package = open_tables(real.with_brca1["2026-02-26"], contents="sizes")
    declared = package.info.mix.declared
    assert isinstance(declared, Shares)
    # One visit of each of BRCA1's seven windows gives 0.2 % at most.
    assert declared.edits["clinvar"] == pytest.approx(0.0372, abs=1e-4)
    assert declared.farthest(served_with(package, times)) < 0.02
