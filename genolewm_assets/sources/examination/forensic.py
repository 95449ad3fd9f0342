"""Look at the folder of forensic runs and at the kit's panel files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from genolewm_assets.forensic import read_panel
from genolewm_assets.sources.examination.finding import Answers
from genolewm_assets.sources.examination.places import local_path
from genolewm_assets.sources.run_folders import list_run_folders


def look_at_runs(url: str) -> Answers:
    """Look at the folder of runs: that it is there, and how many run folders it has if it has none."""
    folder = local_path(url)
    if folder is not None and not list_run_folders(folder):
        yield "has no run folder yet"


def look_at_panels(resolve: Callable[[str], str], urls: tuple[str, ...], name: str | None) -> Callable[[str], Answers]:
    """Return a look at all panel files together: that they define the panel."""

    def look(_: str) -> Answers:
        paths = [path for url in urls if (path := local_path(resolve(url))) is not None]
        read_panel(*map(Path, paths), panel_name=name)
        yield from ()

    return look
