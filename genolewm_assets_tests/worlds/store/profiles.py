"""Small caches of profiles for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from genolewm_assets.forensic import MemmapCacheWriter, PreprocessedProfile
from genolewm_assets.store import read_stamped
from genolewm_assets_tests.worlds.store.array_caches import write_source

CONFIG: Mapping[str, Any] = {"scaling": "PowerPlexFusion6C", "adjust_panel": True, "cache_version": 1}
SHAPE = (6, 32)
PANEL_FILE = "panel.xml"


def write_sources(folder: Path, n_profiles: int) -> dict[str, Path]:
    files = {name: folder / name for name in (PANEL_FILE, *(f"run/{row:03}.hid" for row in range(n_profiles)))}
    for name, path in files.items():
        write_source(path, f"content of {name}")
    return files


def panel_of(row: int) -> list[dict[str, Any]]:
    """Four panels; equal ones have their keys in another order."""
    markers = [{"name": "D3S1358", "dye": 1, "bins": {"14": [113.5, 0.4], "ladder": row % 4}}, {"name": "é", "dye": 2}]
    return [dict(reversed(marker.items())) for marker in markers] if row % 2 else markers


def make_profile(files: Mapping[str, Path], row: int, shape: tuple[int, int] = SHAPE) -> PreprocessedProfile:
    draw, path = np.random.default_rng(row), f"run/{row:03}.hid"
    return PreprocessedProfile(
        path=path,
        data=draw.integers(-500, 30_000, shape, np.int16),
        scaler=np.linspace(60, 480 + row, shape[1]),
        annotation=None if row % 5 == 4 else draw.integers(0, 2, shape, np.int8),
        panel=panel_of(row),
        alleles=None if row % 5 == 4 else [{"marker": "D3S1358", "alleles": ["14", str(row % 3)]}],
        meta={"injection": row},
        stamps={name: read_stamped(files[name])[1] for name in (path, PANEL_FILE)},
    )


def open_writer(cache_dir: Path, files: Mapping[str, Path], **changes: Any) -> MemmapCacheWriter:
    settings = {
        "shape": SHAPE,
        "allow_missing_annotations": True,
        "commit_rows": 4,
        "commit_ms": None,
        "lock_wait_s": 0.0,
        **changes,
    }
    return MemmapCacheWriter(cache_dir, CONFIG, files=files, **settings)


def build_cache(cache_dir: Path, files: Mapping[str, Path], **changes: Any) -> Path:
    with open_writer(cache_dir, files, **changes) as writer:
        for row in range(len(files) - 1):
            if f"run/{row:03}.hid" not in writer.resume_paths():
                writer.write(make_profile(files, row))
        writer.finalize()
    return writer.directory
