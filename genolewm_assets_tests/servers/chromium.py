"""The system's Chromium, without a window."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

#: The browser is asked for nothing but the pages of the test; in a container it has no sandbox of its own to start.
_SWITCHES = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def find_chromium() -> str | None:
    names = (os.environ.get("CHROMIUM"), "chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if name and (path := shutil.which(name))), None)


def require_chromium() -> str:
    """Return the path of Chromium; without it, skip the test, or fail it where the browser is required."""
    found = find_chromium()
    if found is None:
        reason = "Chromium is not installed: apt-get install chromium, or set CHROMIUM to its path"
        if os.environ.get("CI") == "true" or os.environ.get("GENOLEWM_REQUIRE_BROWSER"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@contextmanager
def chromium(path: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=_SWITCHES)
        try:
            yield browser
        finally:
            browser.close()
