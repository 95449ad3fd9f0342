"""Steps shared by the tests explain their failures as tests do."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("genolewm_assets_tests.live.release_steps", "genolewm_assets_tests.live.backfill_steps")
