"""What stands where on the page of the asset graph."""

from __future__ import annotations

import time

from playwright.sync_api import Page

from genolewm_assets.definitions import defs

SPECS = {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}
GROUPS = sorted({str(spec.group_name) for spec in SPECS.values()})
EXPANDED_GRAPH = "/asset-groups?expanded=" + ",".join(f"global@global:{group}" for group in GROUPS)

_DRAWN_WITHIN_S = 120.0

_BOXES = """() => [...document.querySelectorAll("foreignObject")].map((box) => {
  const { left, top, right, bottom } = box.getBoundingClientRect();
  return [box.textContent, left, top, right, bottom];
})"""


def read_boxes(page: Page) -> list[tuple[str, float, float, float, float]]:
    """Return the boxes of groups and assets: text, left, top, right, bottom, in CSS pixels."""
    return [tuple(box) for box in page.evaluate(_BOXES)]


def read_graph(page: Page) -> dict[str, str]:
    """Return what stands in the box of each asset, by group and name, where the graph is drawn with all it knows."""
    boxes = read_boxes(page)
    groups = {text: frame for text, *frame in boxes if text in GROUPS}
    found = {}
    for text, left, top, right, bottom in boxes:
        name, is_asset, _ = text.partition("Latest event")
        x, y = (left + right) / 2, (top + bottom) / 2
        for group, frame in groups.items():
            if is_asset and frame[0] < x < frame[2] and frame[1] < y < frame[3]:
                found[f"{group}/{name}"] = text
    return found


def wait_for_graph(page: Page) -> dict[str, str]:
    """Wait until the boxes of all assets, and no others, tell their state; return them as :func:`read_graph` does."""
    deadline = time.monotonic() + _DRAWN_WITHIN_S
    while True:
        graph = read_graph(page)
        if graph.keys() == SPECS.keys() and not any("Loading" in text for text in graph.values()):
            return graph
        assert time.monotonic() < deadline, f"expected {sorted(SPECS)}, the page shows {graph}"
        page.wait_for_timeout(250)
