"""Folders that tests read."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).resolve().parent
REPOSITORY = TESTS.parent
#: Catalogues over the shared data.
CATALOGS = TESTS / "catalogs"
#: Real data beside the checkout; tests that need it skip where it is absent.
SHARED_DATA = REPOSITORY.parent / "shared" / "data"
