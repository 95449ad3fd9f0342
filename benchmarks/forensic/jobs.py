"""Tasks on instrument files: parsing, pre-processing of a sample, items of the data set.

``python -m benchmarks.forensic.jobs FOLDER``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.forensic.inputs import Runs, find_runs
from benchmarks.stopwatch import serve_tasks
from genolewm_assets.forensic import HIDDataset, call_alleles, fit_ladder, parse_hid, read_hid, size_run, to_arrays
from genolewm_assets.forensic.dataset.profiles import BasePairGrid, ProfileRules, RunPanel, fit_run_ladder, make_profile
from genolewm_assets.store import read_stamped

ITEMS, REPEATS = 20_000, 5
_SEED = 7


def make_tasks(folder: Path) -> dict[str, Callable[[], int]]:
    """Return the tasks by name; each returns the number of files, profiles or items that it handled."""
    runs = find_runs(folder)
    return {**_file_tasks(runs), **_item_tasks(runs, folder)}


def _file_tasks(runs: Runs) -> dict[str, Callable[[], int]]:
    paths = runs.paths
    ladder_name = next(name for name in paths if "ladder" in name.lower())
    samples = {name: path for name, path in paths.items() if name != ladder_name and "neg" not in name}
    data, stamp = read_stamped(paths[ladder_name])
    stamps, grid = {ladder_name: stamp}, BasePairGrid(runs.scaling, ProfileRules())
    moved = fit_run_ladder(ladder_name, parse_hid(data, ladder_name), runs.scaling.panel, grid, stamps).moved
    calls = {name: call_alleles(run, size_run(run), moved.panel) for name, run in _read(samples).items()}

    def parse() -> int:
        for path in [*paths.values()] * REPEATS:
            run = read_hid(path)
            assert run.n_scans
        return REPEATS * len(paths)

    def whole(strategy: Any) -> Callable[[], int]:
        grid = BasePairGrid(runs.scaling, ProfileRules(strategy))

        def run() -> int:
            for name, path in [*samples.items()] * REPEATS:
                _preprocess(name, path, moved, grid)
            return REPEATS * len(samples)

        return run

    def called() -> int:
        for name, path in [*samples.items()] * REPEATS:
            run = read_hid(path)
            assert call_alleles(run, size_run(run), moved.panel).genotype == calls[name].genotype
        return REPEATS * len(samples)

    def ladder() -> int:
        run = read_hid(paths[ladder_name])
        assert fit_ladder(run, size_run(run), runs.scaling.panel).panel == moved.panel
        return 1

    profiles = {f"profile_{strategy}": whole(strategy) for strategy in ("raw", "superior")}
    return {"parse": parse, "ladder": ladder, "calls": called, **profiles}


def _read(samples: dict[str, Path]) -> dict[str, Any]:
    return {name: read_hid(path) for name, path in samples.items()}


def _preprocess(name: str, path: Path, moved: RunPanel, grid: BasePairGrid) -> None:
    """Read, parse, size, and put a sample on the grid, as the build of a cache does."""
    data, stamp = read_stamped(path)
    profile = make_profile(name, parse_hid(data, name), moved, None, grid, stamps={name: stamp}).image
    assert np.shape(profile.data) == (len(grid.scaling.channels), grid.scaling.scanpoint_resolution)


def _item_tasks(runs: Runs, folder: Path) -> dict[str, Callable[[], int]]:
    caches = folder / "caches"
    stored, memory = runs.open(caches), runs.open(caches, load_in_memory=True)
    arrays = runs.open(caches, transform=to_arrays)
    order = np.random.default_rng(_SEED).integers(0, len(stored), ITEMS).tolist()

    def read(dataset: HIDDataset) -> Callable[[], int]:
        def run() -> int:
            for index in order:
                dataset[index]
            return ITEMS

        return run

    def opened() -> int:
        return len(runs.open(caches))

    return {"item": read(stored), "item_memory": read(memory), "item_arrays": read(arrays), "open": opened}


def main() -> None:
    (folder,) = sys.argv[1:]
    serve_tasks(make_tasks(Path(folder)), version=metadata.version("genolewm-assets"))


if __name__ == "__main__":
    main()
