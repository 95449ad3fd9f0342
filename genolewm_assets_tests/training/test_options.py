from __future__ import annotations

import pytest

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.training.opening import stated_options
from genolewm_assets.training.options import evaluation_of


def test_slots_that_fell_back_are_left_out_of_sampled_evaluations_only():
    with pytest.raises(ConfigurationError, match="without_fallback: is an option of evaluation"):
        stated_options({"without_fallback": True})
    with pytest.raises(ConfigurationError, match="without_fallback: does not apply to coverage='alleles'"):
        evaluation_of("alleles", "holdout-chr", {"without_fallback": True})
    assert stated_options({"without_fallback": False}) == stated_options({})
    assert evaluation_of("windows", "holdout-chr", {"without_fallback": True}) == "windows"
