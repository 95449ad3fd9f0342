"""The root over the real data, and packages with and without a held-out gene."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from genolewm_assets_tests.places import CATALOGS
from genolewm_assets_tests.worlds.graph.tiny_world import bytes_of

PACKAGED = ("2020-11-07", "2026-02-26")


def run_demo(root: Path, catalog: str) -> dict[tuple[str, str | None], str]:
    """Run the demo over a real catalogue; return what became of every partition."""
    module = "genolewm_assets_tests.worlds.graph.quick_dagster"
    command = [sys.executable, "-m", module, "demo", "--root", str(root), "--json"]
    command += ["--catalog", str(CATALOGS / f"{catalog}.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1500, check=False)
    assert done.returncode == 0, done.stderr
    return {(entry["asset"], entry["partition"]): entry["outcome"] for entry in json.loads(done.stdout)}


@dataclass(frozen=True)
class RealRoot:
    """A root, and the packages of each release with BRCA1 held out and with no gene held out."""

    path: Path
    without_brca1: dict[str, Path]
    with_brca1: dict[str, Path]


def packages(root: Path) -> dict[str, Path]:
    """Return the latest package of each release."""
    records = {release: root / "packages" / release / "latest.json" for release in PACKAGED}
    return {release: root / json.loads(path.read_bytes())["path"] for release, path in records.items()}


@pytest.fixture(scope="session")
def real(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> RealRoot:
    """Run the demo with BRCA1 held out, again, and with another policy on the same root."""
    assert shared_data.is_dir()
    root = tmp_path_factory.mktemp("real")
    assert set(run_demo(root, "shared_data").values()) == {"built"}
    without, before = packages(root), bytes_of(root)
    assert set(run_demo(root, "shared_data").values()) == {"current"}
    assert bytes_of(root) == before
    again = run_demo(root, "shared_data_all_genes")
    rebuilt = {asset for (asset, _), outcome in again.items() if outcome == "built"}
    assert rebuilt == {"holdouts/manifest", "packages/split", "packages/audit", "packages/current"}
    return RealRoot(root, without, packages(root))


@pytest.fixture(scope="session")
def root(real: RealRoot) -> Path:
    """Return the root's folder."""
    return real.path
