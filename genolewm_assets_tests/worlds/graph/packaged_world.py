"""The tiny world up to its packages, built by a process of its own beside what a test starts meanwhile.

``python -m genolewm_assets_tests.worlds.graph.packaged_world FOLDER STEPS`` builds it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from genolewm_assets_tests.places import REPOSITORY
from genolewm_assets_tests.worlds.graph.tiny_world import CONTIGS, CORPUS, LINEAR, RELEASES, TinyWorld

#: Assets that are built together, and for which partitions.
Steps: TypeAlias = Sequence[tuple[Sequence[str], Sequence[str | None]]]

_STEPS: Steps = (
    (("reference/genome",), (None,)),
    (("gnomad/shard",), CONTIGS),
    (("windows/index", "embeddings/cache"), LINEAR),
    (("corpus/windows", "embeddings/corpus"), CORPUS),
    (("clinvar/release", "clinvar/shard", "holdouts/manifest"), RELEASES),
    (("packages/split",), RELEASES[1:]),
)

#: Windows and states alone, of a contig and of a corpus source, and the windows of another source.
STATES: Steps = (
    (("reference/genome",), (None,)),
    (("windows/index", "embeddings/cache"), ("chr17",)),
    (("corpus/windows",), ("mrna_evo2",)),
    (("corpus/windows", "embeddings/corpus"), ("eukaryote_generator",)),
)


def start_building(folder: Path, steps: Steps = _STEPS) -> Callable[[], TinyWorld]:
    """Start to build the world, or some of it; returns what waits for its end and opens it."""
    command = [sys.executable, "-m", __name__, str(folder), json.dumps(steps)]
    process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def opened() -> TinyWorld:
        said, _ = process.communicate()
        assert process.returncode == 0, said.decode()[-6_000:]
        return TinyWorld(folder)

    return opened


def forget(root: Path, asset: str, partition: str) -> None:
    """Remove what is published of a partition, so that it has to be built."""
    for link in [path for path in root.rglob("*") if path.is_symlink() and (path / "manifest.json").is_file()]:
        manifest = json.loads((link / "manifest.json").read_text())
        if (manifest["asset"], manifest["partition"]) == (asset, partition):
            shutil.rmtree(link.resolve())
            link.unlink()
            return
    raise AssertionError(f"{asset}[{partition}] is not published")


def _build(folder: Path, steps: Steps) -> None:
    from genolewm_assets_tests.worlds.graph.quick_dagster import install

    install()
    world = TinyWorld(folder)
    for keys, partitions in steps:
        for partition in partitions:
            assert world.materialize(*keys, partition=partition).success, (keys, partition)


if __name__ == "__main__":
    _build(Path(sys.argv[1]), json.loads(sys.argv[2]))
