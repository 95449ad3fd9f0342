"""Trace one walk through the code: ``python -m benchmarks.walks WALK --root ROOT``.

Prints how many modules, rooms and functions it enters, how often it returns to a room that it left, and how deep its
calls are nested. Rooms are packages below ``genolewm_assets``. A walk is made twice, and traced the second time, when
everything is imported. It needs a built root and leaves it as it is. Compiled code is not seen.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from types import FrameType

import genolewm_assets

_PRODUCT = f"{Path(genolewm_assets.__file__).parent}/"

Walk = Callable[[], object]


@dataclass
class Trace:
    """Modules and functions that a walk enters, in order of their first entry, and its depth in functions."""

    modules: dict[str, None] = field(default_factory=dict)
    functions: set[tuple[str, int]] = field(default_factory=set)
    depth: int = 0

    def __call__(self, frame: FrameType | None, event: str, _: object) -> None:
        """Take up one event of the interpreter's profiler."""
        if frame is None or event != "call" or not frame.f_code.co_filename.startswith(_PRODUCT):
            return
        if frame.f_code.co_filename.endswith("_kernels.py"):  # numba reports the outermost call of compiled code
            return
        self.modules.setdefault(frame.f_code.co_filename.removeprefix(_PRODUCT))
        if not frame.f_code.co_name.startswith("<"):
            self.functions.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))
        depth = 0
        while frame is not None:
            depth += frame.f_code.co_filename.startswith(_PRODUCT)
            frame = frame.f_back
        self.depth = max(self.depth, depth)

    @property
    def stays(self) -> list[str]:
        """Rooms in the order in which modules are entered for the first time."""
        return [room or "." for room, _ in groupby(module.rpartition("/")[0] for module in self.modules)]

    @property
    def figures(self) -> dict[str, int]:
        """Figures by name."""
        rooms = len(set(self.stays))
        entered = {"modules": len(self.modules), "rooms": rooms, "functions": len(self.functions)}
        return {**entered, "returns": len(self.stays) - rooms, "depth": self.depth}


def prepare_build(root: Path, catalog: str, *keys: str) -> Walk:
    """Return the plan and build of the newest partition of some assets, as once more, without publishing."""
    from genolewm_assets.defs.assets import GATED
    from genolewm_assets.defs.runtime import BY_RUN_FOLDER, GatedAsset, Workspace
    from genolewm_assets.progress import NO_PROGRESS
    from genolewm_assets.store.artefacts import Published, build_again

    workspace = Workspace.open(root, catalog)

    def find(asset: GatedAsset) -> Published:
        if asset.partitions.definition is None:
            return asset.open(workspace)
        known = workspace.published_runs() if asset.partitions is BY_RUN_FOLDER else workspace.known_releases()
        return asset.open(workspace, known[-1])

    published = [(asset, find(asset)) for asset in map(GATED.__getitem__, keys)]

    def build() -> None:
        for asset, found in published:
            plan = asset.build_plan(workspace, found.artefact.partition, NO_PROGRESS)
            build_again(workspace.root, plan, found)

    return build


def prepare_batch(root: Path) -> Walk:
    """Return the first batch of an epoch of the package in use, which is open."""
    from genolewm_assets.lewm import GenoLeWMDataset

    dataset = GenoLeWMDataset.current(root)
    return lambda: next(iter(dataset))


#: Walks by name: each is prepared from a root and the name or path of its catalogue.
WALKS: dict[str, Callable[[Path, str], Walk]] = {
    "clinvar-shard": lambda root, catalog: prepare_build(root, catalog, "clinvar/shard"),
    "package-split": lambda root, catalog: prepare_build(root, catalog, "packages/split"),
    "hid-to-profiles": lambda root, catalog: prepare_build(root, catalog, "forensic/profiles"),
    "window-to-batch": lambda root, _: prepare_batch(root),
    "genome-to-tokens": lambda root, catalog: prepare_build(root, catalog, "mito/genomes", "mito/tokens"),
}


def trace(walk: Walk) -> Trace:
    """Make a walk twice, and trace the second time."""
    walk()
    found = Trace()
    sys.setprofile(found)
    try:
        walk()
    finally:
        sys.setprofile(None)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("walk", choices=WALKS)
    parser.add_argument("--root", type=Path, required=True, help="a built root")
    parser.add_argument("--catalog", default="sample", help="its catalogue")
    parser.add_argument("--stays", action="store_true", help="also list the rooms in order")
    given = parser.parse_args()
    found = trace(WALKS[given.walk](given.root, given.catalog))
    print(f"{given.walk}: " + ", ".join(f"{figure:,} {name}" for name, figure in found.figures.items()))
    if given.stays:
        print("\n".join(found.stays))


if __name__ == "__main__":
    main()
