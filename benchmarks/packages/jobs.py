"""``packages/split`` and ``packages/current``, each in a process: ``python -m benchmarks.packages.jobs STEP FOLDER``.

``FOLDER`` is one of :func:`benchmarks.packages.root.make_root`. A step is measured as its asset runs it: inputs are
opened, files are written, checked and published, and the metadata and pictures of the UI are made.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from benchmarks.packages.root import RELEASES, open_root
from benchmarks.stopwatch import serve_tasks


def _split(folder: Path) -> Callable[[], int]:
    from genolewm_assets.defs.assets.packages.split import describe_package, packages_split, record_latest
    from genolewm_assets.progress import NO_PROGRESS
    from genolewm_assets.store.artefacts import build

    def work() -> int:
        workspace = open_root(folder)
        shutil.rmtree(workspace.root.path / "packages", ignore_errors=True)
        plan = packages_split.build_plan(workspace, RELEASES[-1], NO_PROGRESS)
        published = build(workspace.root, plan)
        record_latest(workspace, plan, published)
        describe_package(published)
        return sum(entry.rows or 0 for entry in published.manifest.files if entry.path.startswith("data/"))

    return work


def _current(folder: Path) -> Callable[[], int]:
    from genolewm_assets.packages import move_current, read_latest
    from genolewm_assets_tests.worlds.lewm.recorded_audits import record_audit

    root = open_root(folder).root.path
    record_audit(root, RELEASES[-1], read_latest(root, RELEASES[-1]).manifest_sha256)

    def work() -> int:
        move_current(root)
        return 1

    return work


_STEPS = {"split": _split, "current": _current}


def main() -> None:
    step, folder = sys.argv[1:]
    serve_tasks({"run": _STEPS[step](Path(folder))}, version=metadata.version("genolewm-assets"))


if __name__ == "__main__":
    main()
