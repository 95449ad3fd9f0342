"""The README's pictures: taken and looked at; with ``GENOLEWM_WRITE_PICTURES=1`` they are written to docs/images."""

from __future__ import annotations

import io
import json
import os
import re

from PIL import Image
from playwright.sync_api import Browser, Page, expect

from genolewm_assets_tests.browser.pages import EXPANDED_GRAPH, read_boxes, wait_for_graph
from genolewm_assets_tests.places import REPOSITORY

_IMAGES = REPOSITORY / "docs" / "images"
_COLOURS, _MARGIN = 256, 16
_GRAPH_WIDTH, _GRAPH_HEIGHT = 3_800, 2_600

#: The page behind stays readable, and the picture lies beside what it belongs to.
_BESIDE = """
.bp5-overlay-backdrop { background: transparent !important; }
.bp5-dialog { position: absolute; right: 24px; bottom: 24px; margin: 0; box-shadow: 0 4px 24px #0006 !important; }
"""


def take_pictures(browser: Browser, url: str) -> None:
    """Take the pictures of a root of the sample that is built and served, and check what is seen on them."""
    _keep(_take_lineage(browser, url), "lineage.png")
    _keep(_take_asset(browser, url), "asset.png")


def _open_page(browser: Browser, url: str, width: int, height: int, scale: float, **settings: object) -> Page:
    """Return an empty page of the UI with the settings that its user would have chosen."""
    context = browser.new_context(base_url=url, viewport={"width": width, "height": height}, device_scale_factor=scale)
    for name, value in settings.items():
        key, stored = name.replace("_", "-"), json.dumps(value)
        context.add_init_script(f"localStorage.setItem({json.dumps(key)}, {json.dumps(stored)})")
    return context.new_page()


def _take_lineage(browser: Browser, url: str) -> bytes:
    """Return the graph of all assets, cut to its size."""
    page = _open_page(browser, url, _GRAPH_WIDTH, _GRAPH_HEIGHT, 1.0, asset_graph_direction="vertical")
    page.goto(EXPANDED_GRAPH)
    page.locator("button:has([aria-label=panel_show_right])").last.click()
    graph = wait_for_graph(page)
    assert [asset for asset, text in graph.items() if "ailed" in text or "Overdue" in text] == []
    page.wait_for_timeout(2_000)
    boxes = [frame for text, *frame in read_boxes(page) if text]
    left, top = (min(box[side] for box in boxes) - _MARGIN for side in (0, 1))
    right, bottom = (max(box[side] for box in boxes) + _MARGIN for side in (2, 3))
    assert 0 <= left < right <= _GRAPH_WIDTH, "the graph is cut"
    assert 0 <= top < bottom <= _GRAPH_HEIGHT, "the graph is cut"
    shot = page.screenshot(clip={"x": left, "y": top, "width": right - left, "height": bottom - top})
    page.context.close()
    return shot


def _take_asset(browser: Browser, url: str) -> bytes:
    """Return the page of an asset with one of its pictures open."""
    page = _open_page(browser, url, 1_400, 960, 1.2)
    page.goto("/")
    page.get_by_text("Catalog", exact=True).first.click()
    page.get_by_role("link", name="clinvar / shard").first.click()
    for text in ("One row per normalised allele of a ClinVar release", "Latest check results", re.compile(" ago$")):
        expect(page.get_by_text(text).first).to_be_visible()
    page.locator("tr", has=page.get_by_text("classes_by_review_stars")).get_by_text("[Show Markdown]").click()
    page.add_style_tag(content=_BESIDE)
    expect(page.locator("img[src^='data:image/svg']")).to_be_visible()
    page.evaluate("document.querySelectorAll('*').forEach((element) => element.scrollTo(0, 0))")
    page.wait_for_timeout(2_000)
    shot = page.screenshot()
    page.context.close()
    return shot


def _keep(shot: bytes, name: str) -> None:
    """Check that a picture is not blank and, if asked, write it with a palette: interfaces have few colours."""
    with Image.open(io.BytesIO(shot)) as image:
        assert image.width > 1_000, name
        assert image.height > 800, name
        inked = sum(image.convert("L").histogram()[:200])
        assert inked > 0.005 * image.width * image.height, f"{name} is blank"
        if os.environ.get("GENOLEWM_WRITE_PICTURES"):
            _IMAGES.mkdir(exist_ok=True)
            few = image.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
            few.save(_IMAGES / name, optimize=True)
