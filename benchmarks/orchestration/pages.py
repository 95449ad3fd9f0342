"""Wall-clock seconds until pages of the UI show what they are opened for, in a browser, on an instance at full size."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.orchestration.inputs import RELEASES

#: Path of each page, and a text that it shows once it has answered.
_PAGES = (
    ("/asset-groups", "encoder"),
    ("/asset-groups?expanded=global@global:corpus", "records"),
    ("/assets", "200 partitions"),
    ("/assets/corpus/windows?view=overview", "Latest check results"),
    ("/assets/corpus/windows?view=partitions", "Materialized (704)"),
    ("/assets/clinvar/shard?view=partitions", "Materialized (200)"),
    ("/assets/packages/split?view=events", RELEASES[-1]),
    ("/assets/packages/split?view=checks", "bytes_match_manifest"),
    ("/assets/corpus/windows?view=lineage&lineageScope=upstream", "100% filled"),
    ("/runs", "Success"),
    ("/automation", "cpu_automation_sensor"),
    ("/jobs", "build_everything"),
    ("/overview/backfills", "No runs found"),
    ("/locations", "Loaded"),
)
_TURNS, _PATIENCE_MS = 3, 60_000


def time_pages(root: Path, catalog: Path) -> Iterator[dict[str, Any]]:
    """Yield for each page the median and the longest of three visits, each in a tab of its own without a cache."""
    from genolewm_assets_tests.servers.chromium import chromium, require_chromium
    from genolewm_assets_tests.servers.ui_server import ui_server

    with ui_server(root, catalog) as url, chromium(require_chromium()) as browser:
        for path, text in _PAGES:
            took = []
            for _ in range(_TURNS):
                page = browser.new_context(base_url=url, viewport={"width": 1600, "height": 1000}).new_page()
                page.set_default_timeout(_PATIENCE_MS)
                started = time.perf_counter()
                page.goto(path, wait_until="commit")
                page.get_by_text(text).first.wait_for()
                took.append(time.perf_counter() - started)
                page.context.close()
            yield {"name": path, "wall_s": round(sorted(took)[_TURNS // 2], 2), "said": f"longest {max(took):.2f} s"}
