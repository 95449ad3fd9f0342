"""A root with artefacts of one small file; as a script (``ROOT VERSION [gc | remove]``), it publishes another."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from genolewm_assets.store.artefacts.build import BuildPlan, BuildReport, build
from genolewm_assets.store.artefacts.gc import collect_garbage
from genolewm_assets.store.artefacts.published import ArtefactId, Published
from genolewm_assets.store.artefacts.root import Root

LOCATIONS = ("windows/tiny/chr17", "windows/tiny/chr20")


def publish(root: Path, location: str, version: str) -> Published:
    def write(work: Path) -> BuildReport:
        (work / "table.txt").write_text(f"{location} {version}\n")
        return BuildReport()

    artefact = ArtefactId("windows/index", location.rpartition("/")[2])
    return build(Root(root), BuildPlan(artefact, location, "1", {"version": version}, (), write))


def create(root: Path) -> None:
    Root(root).claim("small", "0" * 64)
    for location in LOCATIONS:
        publish(root, location, "first")


if __name__ == "__main__":
    where, version_, *then = sys.argv[1:]
    links = {location: (Path(where) / location).resolve() for location in LOCATIONS}
    for location_ in LOCATIONS:
        publish(Path(where), location_, version_)
    if then == ["gc"]:
        collect_garbage(Root(Path(where)))
    if then == ["remove"]:
        shutil.rmtree(links[LOCATIONS[0]])
