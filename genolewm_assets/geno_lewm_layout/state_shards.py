"""States of chosen windows as geno-lewm caches them: Parquet shards in the columns of RFC-0002, and their SQLite index.

Its index has one row per hash, so of windows with the same bases the first has states.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa

from genolewm_assets.packages import Package
from genolewm_assets.progress import Progress
from genolewm_assets.states import export_states
from genolewm_assets.store.artefacts import read_manifest
from genolewm_assets.store.tables import read_batches

#: Folder of the shards, and its index.
EMBEDDINGS, INDEX = "embeddings", "embeddings/index.sqlite"
_KEY = ("window_hash", "encoder_hash", "state_layer", "pool_type", "pool_radius", "dtype")
_TABLE = """
CREATE TABLE window_index (window_hash TEXT NOT NULL, encoder_hash TEXT NOT NULL, state_layer INTEGER NOT NULL,
                           pool_type TEXT NOT NULL, pool_radius INTEGER NOT NULL, dtype TEXT NOT NULL,
                           shard_path TEXT NOT NULL, row_offset INTEGER NOT NULL, created_at INTEGER NOT NULL,
                           PRIMARY KEY (window_hash, encoder_hash, state_layer, pool_type, pool_radius, dtype));
CREATE INDEX idx_shard_path ON window_index (shard_path);
"""
_INSERT = "INSERT INTO window_index VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"


class StateShards:
    """Collects the cached rows of chosen windows, and writes them; ``repeated`` counts windows of the same bases."""

    def __init__(self, package: Package) -> None:
        self._package, self._hashes, self.repeated = package, set[bytes](), 0
        self._rows: dict[str, list[int]] = defaultdict(list)

    def add(self, windows: pa.Table) -> None:
        """Take the windows of a batch that have cached states."""
        columns = (windows[name].to_pylist() for name in ("cache_key", "cache_row", "window_hash"))
        for key, row, digest in zip(*columns, strict=True):
            if key is not None and digest not in self._hashes:
                self._hashes.add(digest)
                self._rows[key].append(row)
            elif key is not None:
                self.repeated += 1

    def write(self, folder: Path, progress: Progress) -> dict[str, int]:
        """Write shards and index below a folder; return the rows of each file by its path in it."""
        rows = {}
        for ref in self._package.info.caches if self._package.caches else ():
            if ref.key not in self._rows:
                continue
            directory, chosen = self._package.caches[ref.source], np.zeros(ref.rows, np.bool_)
            chosen[self._rows[ref.key]] = True
            shard = _shard_path(directory, ref.source)
            (folder / shard).parent.mkdir(parents=True, exist_ok=True)
            rows[shard] = export_states(directory, folder / shard, chosen=chosen, progress=progress)
        if rows:
            with closing(sqlite3.connect(folder / INDEX)) as file, file:
                file.executescript(_TABLE)
                file.executemany(_INSERT, _addresses(folder, rows))
            rows[INDEX] = sum(rows.values())
        return rows


def _shard_path(cache: Path, source: str) -> str:
    """Return where geno-lewm keeps the shard of a contig: model, layer and pooling are folders."""
    encoder = read_manifest(cache).recipe["encoder"]
    assert isinstance(encoder, dict)
    model = str(encoder["model_id"]).replace("/", "__")
    return f"{EMBEDDINGS}/{model}/{encoder['layer']}/global_mean_0/chr{source}_0.parquet"


def _addresses(folder: Path, shards: dict[str, int]) -> Iterator[tuple[object, ...]]:
    for shard in shards:
        offset = 0
        for batch in read_batches(folder / shard, 65_536, _KEY):
            for row in zip(*(batch[name].to_pylist() for name in _KEY), strict=True):
                yield *(value.hex() if isinstance(value, bytes) else value for value in row), shard, offset, 0
                offset += 1
