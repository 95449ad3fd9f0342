"""The root that the browser is shown: everything built once, one partition failed since, one never materialised."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from genolewm_assets.launch import prepare_environment
from genolewm_assets_tests.worlds.graph.tiny_world import TinyWorld

#: The contig whose source has bases that the genome does not have, and the release that nobody has asked for yet.
BROKEN_CONTIG, WAITING_RELEASE = "chr20", "2025-03-02"


@dataclass(frozen=True)
class ShownRoot:
    path: Path
    catalog: Path


def build_shown_root(folder: Path) -> ShownRoot:
    """Build the tiny world, then break the source of one contig and run it again, and register one more release."""
    world = TinyWorld(folder)
    shown = ShownRoot(world.root, world.catalog)
    demo = ["genolewm_assets_tests.worlds.graph.quick_dagster", "demo"]
    _run(shown, 0, *demo, "--root", str(shown.path), "--catalog", str(shown.catalog))
    world.write_gnomad(BROKEN_CONTIG, world.gnomad_records(BROKEN_CONTIG, wrong_ref=5))
    select = ["--select", "gnomad/shard", "--partition", BROKEN_CONTIG, "-m", "genolewm_assets.definitions"]
    _run(shown, 1, "dagster", "asset", "materialize", *select)
    with dg.DagsterInstance.from_config(str(shown.path / "dagster")) as instance:
        instance.add_dynamic_partitions("clinvar_release", [WAITING_RELEASE])
    return shown


def _run(shown: ShownRoot, status: int, *command: str) -> None:
    environment = {**os.environ, **prepare_environment(shown.path, str(shown.catalog))}
    done = subprocess.run(
        [sys.executable, "-m", *command], env=environment, capture_output=True, text=True, timeout=1500, check=False
    )
    assert done.returncode == status, f"{command}: {done.returncode}\n{done.stdout[-3_000:]}\n{done.stderr[-3_000:]}"
