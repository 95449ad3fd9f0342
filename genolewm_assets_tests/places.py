"""Where the repository and its data lie."""

from __future__ import annotations

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
#: Catalogues over the shared data.
CATALOGS = REPOSITORY / "genolewm_assets_tests" / "catalogs"
#: Real data beside the checkout; tests that need it skip where it is absent.
SHARED_DATA = REPOSITORY.parent / "shared" / "data"
