"""Window tables found by the digest of their bytes, and read in pieces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from genolewm_assets.errors import CorruptResourceError, MissingResourceError
from genolewm_assets.lewm.states.window_tables import find_window_tables, window_table_of
from genolewm_assets.progress import NO_PROGRESS, ByteCount
from genolewm_assets.store.artefacts.build import build
from genolewm_assets.store.artefacts.manifest import read_manifest
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets_tests.worlds.lewm.cache_world import publish_cache, publish_windows
from genolewm_assets_tests.worlds.lewm.package_world import make_sources
from genolewm_assets_tests.worlds.store.plans import flip, make_plan, new_root


def test_superseded_tables_are_found_too(tmp_path: Path) -> None:
    root, table = new_root(tmp_path / "root"), make_sources().windows["chr20"]
    assert find_window_tables(root.path) == {}
    older = publish_windows(root, "windows/index", "chr20", table)
    cache = publish_cache(root, older)
    newer = publish_windows(root, "windows/index", "chr20", table.slice(3))
    found = find_window_tables(root.path)
    assert {entry.path for entry in found.values()} == {p.file("windows.parquet") for p in (older, newer)}
    of_cache = window_table_of(cache.manifest, found)
    assert (of_cache.path, of_cache.artefact) == (older.file("windows.parquet"), older.artefact)
    of_cache.check_bytes(ByteCount(NO_PROGRESS, of_cache.size_bytes))
    hashes = np.concatenate(list(of_cache.read_hashes()))
    assert [row.tobytes() for row in hashes] == table["window_hash"].to_pylist()
    pieces = list(of_cache.read_batches(["start"], 4))
    assert [len(piece) for piece in pieces] == [4, 4, 4, 2]
    flip(of_cache.path, 300)
    with pytest.raises(CorruptResourceError, match=r"content differs: .* Rebuild windows/index\[chr20\]\.$"):
        of_cache.check_bytes(ByteCount(NO_PROGRESS, of_cache.size_bytes))
    del found[of_cache.sha256]
    with pytest.raises(MissingResourceError, match=r"embeddings/cache\[chr20\]: its window table is not in the root"):
        window_table_of(cache.manifest, found)


def test_a_manifest_that_names_no_table(tmp_path: Path) -> None:
    published = build(Root(tmp_path / "root"), make_plan())
    with pytest.raises(CorruptResourceError, match="names no window table"):
        window_table_of(read_manifest(published.directory), {})
