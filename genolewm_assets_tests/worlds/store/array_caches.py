"""Small folders of array caches for tests: samples and a panel, and rows in which every byte of them shows."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from genolewm_assets.store import ArrayStoreReader, compute_key, read_stamped
from genolewm_assets.store.arrays.cache import ArrayCacheWriter
from genolewm_assets.store.arrays.layout import ArraySpec
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets_tests.worlds.store.array_stores import contents

CONFIG: Mapping[str, object] = {"strategy": "PPF6C", "cache_version": 1}
KEY = compute_key(CONFIG)
ARRAYS = (ArraySpec("data", (2, 16), "uint8"), ArraySpec("scaler", (), "float32"))
PANEL = "panel.xml"
N_ROWS = 11  # commits at 4, 8 and 11
OLD_NS = 1_500_000_000 * 10**9


def write_source(path: Path, text: str, mtime_ns: int = OLD_NS) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, ns=(mtime_ns, mtime_ns))


def write_sources(folder: Path, version: int, n_rows: int = N_ROWS) -> dict[str, Path]:
    """Samples and a panel; of another version they have other bytes of the same length, and other times."""
    files = {f"samples/{row}.hid": folder / "samples" / f"{row}.hid" for row in range(n_rows)} | {PANEL: folder / PANEL}
    for name, path in files.items():
        write_source(path, f"{name} version {version}", OLD_NS + version)
    return files


def arrays_of(sample: bytes, panel: bytes) -> dict[str, npt.ArrayLike]:
    """A row in which every byte of its sources shows."""
    digests = [np.frombuffer(hashlib.sha256(text).digest(), np.uint8) for text in (sample, panel)]
    return {"data": np.array([digest[:16] for digest in digests]), "scaler": np.float32(digests[0][16])}


def open_cache(cache_dir: Path, files: Mapping[str, Path], **changes: object) -> ArrayCacheWriter:
    settings = {"commit_rows": 4, "commit_ms": None, "batch_rows": 4, "key_column": "path", "lock_wait_s": 0.0}
    return ArrayCacheWriter(cache_dir, CONFIG, ARRAYS, files=files, **{**settings, **changes})


def write_rows(writer: ArrayCacheWriter, files: Mapping[str, Path], stop: int | None = None) -> list[str]:
    """Write the rows that are missing; returns their keys."""
    done = set(writer.resume_keys())
    missing = [name for name in files if name != PANEL and name not in done][
        : None if stop is None else stop - len(done)
    ]
    for name in missing:
        (sample, stamp), (panel, panel_stamp) = read_stamped(files[name]), read_stamped(files[PANEL])
        writer.write(arrays_of(sample, panel), key=name, stamps={name: stamp, PANEL: panel_stamp})
    return missing


def build_cache(cache_dir: Path, files: Mapping[str, Path], **changes: object) -> Path:
    with open_cache(cache_dir, files, **changes) as writer:
        write_rows(writer, files)
        return writer.finalize()


def rows_of(directory: Path) -> list[bytes]:
    reader = ArrayStoreReader(directory, check=True)
    return [reader.get_row(row)["data"].tobytes() for row in range(len(reader))]


def expected_rows(files: Mapping[str, Path]) -> list[bytes]:
    panel = files[PANEL].read_bytes()
    return [np.asarray(arrays_of(p.read_bytes(), panel)["data"]).tobytes() for n, p in files.items() if n != PANEL]


def published_bytes(directory: Path) -> dict[str, bytes]:
    """Everything but what differs between runs."""
    return {name: data for name, data in contents(directory).items() if name not in ("stamps.json", "provenance.json")}


def leftovers(cache_dir: Path) -> list[str]:
    return [path.name for path in Root(cache_dir).leftovers(KEY)]
