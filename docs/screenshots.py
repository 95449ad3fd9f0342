"""Take the README's pictures from the demo's root: ``make demo``, then ``python docs/screenshots.py [ROOT] [CATALOG]``.

Needs Chromium (``apt-get install chromium``, or ``CHROMIUM`` set to its path) and the development tools.
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page

from genolewm_assets_tests.browser.pages import EXPANDED_GRAPH, read_boxes, wait_for_graph
from genolewm_assets_tests.servers.chromium import chromium, find_chromium
from genolewm_assets_tests.servers.ui_server import ui_server

IMAGES = Path(__file__).parent / "images"
COLOURS = 256
MARGIN = 16

#: The page behind stays readable, and the picture lies beside what it belongs to.
BESIDE = """
.bp5-overlay-backdrop { background: transparent !important; }
.bp5-dialog { position: absolute; right: 24px; bottom: 24px; margin: 0; box-shadow: 0 4px 24px #0006 !important; }
"""


def open_page(browser: Browser, url: str, width: int, height: int, scale: float, **settings: object) -> Page:
    """Return an empty page of the UI with the settings that its user would have chosen."""
    context = browser.new_context(base_url=url, viewport={"width": width, "height": height}, device_scale_factor=scale)
    for name, value in settings.items():
        key, stored = name.replace("_", "-"), json.dumps(value)
        context.add_init_script(f"localStorage.setItem({json.dumps(key)}, {json.dumps(stored)})")
    return context.new_page()


def take_lineage(browser: Browser, url: str) -> bytes:
    """Return the graph of all assets, cut to its size."""
    page = open_page(browser, url, 3_800, 2_600, 1.0, asset_graph_direction="vertical")
    page.goto(EXPANDED_GRAPH)
    page.locator("button:has([aria-label=panel_show_right])").last.click()
    wait_for_graph(page)
    page.wait_for_timeout(2_000)
    boxes = [frame for text, *frame in read_boxes(page) if text]
    left, top = (min(box[side] for box in boxes) - MARGIN for side in (0, 1))
    right, bottom = (max(box[side] for box in boxes) + MARGIN for side in (2, 3))
    return page.screenshot(clip={"x": left, "y": top, "width": right - left, "height": bottom - top})


def take_asset(browser: Browser, url: str) -> bytes:
    """Return the page of an asset with one of its pictures open."""
    page = open_page(browser, url, 1_400, 960, 1.2)
    page.goto("/assets/clinvar/shard")
    page.locator("tr", has=page.get_by_text("classes_by_review_stars")).get_by_text("[Show Markdown]").click()
    page.add_style_tag(content=BESIDE)
    page.locator("img[src^='data:image/svg']").wait_for()
    page.evaluate("document.querySelectorAll('*').forEach((element) => element.scrollTo(0, 0))")
    page.wait_for_timeout(2_000)
    return page.screenshot()


def save(shot: bytes, name: str) -> None:
    """Write a screenshot with a palette: interfaces have few colours."""
    IMAGES.mkdir(exist_ok=True)
    with Image.open(io.BytesIO(shot)) as image:
        image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(IMAGES / name, optimize=True)
    print(f"{IMAGES / name}: {image.width} x {image.height}, {(IMAGES / name).stat().st_size:,} bytes")


def main(root: str = "data", catalog: str = "sample") -> None:
    """Take both."""
    path = find_chromium()
    if path is None:
        sys.exit("docs/screenshots.py: Chromium is not installed. Run: apt-get install chromium")
    with ui_server(Path(root).resolve(), catalog) as url, chromium(path) as browser:
        save(take_lineage(browser, url), "lineage.png")
        save(take_asset(browser, url), "asset.png")


if __name__ == "__main__":
    main(*sys.argv[1:])
