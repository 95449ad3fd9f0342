"""One browser and one server for all tests of the pages.

Both end with this package: while Playwright runs, its thread has a running event loop, and nothing else there could
start one.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from genolewm_assets_tests.servers.chromium import chromium, require_chromium
from genolewm_assets_tests.servers.ui_server import ui_server
from genolewm_assets_tests.worlds.graph.shown_root import build_shown_root

#: Pages of a busy machine take their time; nothing here measures it.
PATIENCE_MS = 120_000


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Return the system's Chromium."""
    with chromium(require_chromium()) as running:
        yield running


@pytest.fixture(scope="package")
def server(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the URL of the Dagster UI of the root that is shown; nothing is built where there is no browser."""
    shown = build_shown_root(tmp_path_factory.mktemp("shown") / "world")
    with ui_server(shown.path, shown.catalog) as url:
        yield url


@pytest.fixture
def page(browser: Browser, server: str) -> Iterator[Page]:
    """Return an empty page whose addresses are those of the server."""
    expect.set_options(timeout=PATIENCE_MS)
    context = browser.new_context(base_url=server, viewport={"width": 1600, "height": 1000})
    context.set_default_timeout(PATIENCE_MS)
    yield context.new_page()
    context.close()
