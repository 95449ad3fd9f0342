"""The tiny world up to its packages, built once and copied.

``python -m genolewm_assets_tests.worlds.graph.packaged_world FOLDER`` builds it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from genolewm_assets_tests.places import REPOSITORY
from genolewm_assets_tests.worlds.graph.tiny_world import CONTIGS, CORPUS, LINEAR, RELEASES, TinyWorld
from genolewm_assets_tests.worlds.once import built_once

#: Assets that are built together, and for which partitions.
_STEPS: tuple[tuple[tuple[str, ...], tuple[str | None, ...]], ...] = (
    (("reference/genome",), (None,)),
    (("gnomad/shard",), CONTIGS),
    (("windows/index", "embeddings/cache"), LINEAR),
    (("corpus/windows", "embeddings/corpus"), CORPUS),
    (("clinvar/release", "clinvar/shard", "holdouts/manifest"), RELEASES),
    (("packages/split",), RELEASES[1:]),
)


def packaged_world(factory: pytest.TempPathFactory, folder: Path) -> TinyWorld:
    """Return a copy of the world, in a folder that does not exist yet."""
    shutil.copytree(built_once(factory, "packaged_world", _run), folder, symlinks=True)
    return TinyWorld(folder)


def forget(root: Path, asset: str, partition: str) -> None:
    """Remove what is published of a partition, so that it has to be built."""
    for link in [path for path in root.rglob("*") if path.is_symlink() and (path / "manifest.json").is_file()]:
        manifest = json.loads((link / "manifest.json").read_text())
        if (manifest["asset"], manifest["partition"]) == (asset, partition):
            shutil.rmtree(link.resolve())
            link.unlink()
            return
    raise AssertionError(f"{asset}[{partition}] is not published")


def _run(folder: Path) -> None:
    """Build in a process of its own, as it changes Dagster."""
    command = [sys.executable, "-m", __name__, str(folder)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[-3_000:]}\n{done.stderr[-6_000:]}"


def _build(folder: Path) -> None:
    from genolewm_assets_tests.worlds.graph.quick_dagster import install

    install()
    world = TinyWorld(folder)
    for keys, partitions in _STEPS:
        for partition in partitions:
            assert world.materialize(*keys, partition=partition).success, (keys, partition)


if __name__ == "__main__":
    _build(Path(sys.argv[1]))
