"""Check that the states that a package names for a window are those of the window."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.genome import Split
from genolewm_assets.package_build.sources import PackageSources
from genolewm_assets.packages import PIECE_WINDOWS, REFERENCE_ORIGIN, CacheRef, Package, piece_path
from genolewm_assets.store.artefacts import CheckResult, RowsAtFault
from genolewm_assets.variants import Bools, as_bools


def check_caches(package: Package, sources: PackageSources) -> CheckResult:
    """Check that every window's cache key and row lead to its hash in the inputs; of a piece, that the table is one."""
    caches = {ref.source: ref for ref in package.info.caches}
    hashes = {name: table["window_hash"] for name, table in sources.windows.items() if name in caches}
    for name in caches.keys() & sources.corpus.keys():
        batches = [batch["window_hash"] for _, batch in sources.corpus_batches(name, ["window_hash"])]
        hashes[name] = pa.chunked_array([chunk for column in batches for chunk in column.chunks], pa.binary(32))
    figures = Counter(dict.fromkeys(("windows", "with_cache", "wrong_key", "wrong_row"), 0))
    wrong, columns = RowsAtFault(), ["origin", "contig", "start", "window_hash", "cache_key", "cache_row"]
    for split in Split:
        for batch in package.own_batches(split, columns):
            sources_of = _named_caches(batch, caches)
            keys = [caches[name].key if name in caches else name or None for name in sources_of]
            with_cache = np.array([key is not None for key in keys], dtype=bool)
            faults = {
                "wrong_key": np.array(keys, dtype=object) != np.array(batch["cache_key"].to_pylist(), dtype=object),
                "wrong_row": with_cache & ~_lead_back(batch, sources_of, hashes),
            }
            figures.update({"windows": batch.num_rows, "with_cache": int(with_cache.sum())})
            figures.update({name: int(found.sum()) for name, found in faults.items()})
            add_rows(wrong, split, batch, faults)
    off = [
        {"cache_key": caches[name].key, "fault": f"wrong number of rows for {name}", "expected": len(column), "got": n}
        for name, column in hashes.items()
        if (n := caches[name].rows) != len(column)
    ]
    figures["wrong_size"] = len(off)
    entries = {entry.path: entry for entry in package.info.files}
    for piece in (piece for piece in package.info.pieces if piece.source in caches):
        figures.update({"windows": piece.training, "with_cache": piece.training})
        table, made_from = entries[piece_path(piece.source, PIECE_WINDOWS)].sha256, caches[piece.source].windows_sha256
        if table != made_from:
            figures["wrong_table"] += 1
            fault = "the cache is of another table"
            off.append({"cache_key": piece.source, "fault": fault, "expected": table, "got": made_from})
    passed = not any(n for name, n in figures.items() if name.startswith("wrong"))
    return CheckResult("caches_match_windows", passed=passed, figures=dict(figures), rows=[*off, *wrong])


def _named_caches(batch: pa.RecordBatch, caches: Mapping[str, CacheRef]) -> list[str]:
    """Return the contig or piece whose cache each row names, else its origin; empty where there is no cache."""
    pieces, origins = {ref.key: name for name, ref in caches.items()}, {name: name.partition("-")[0] for name in caches}

    def name(origin: str, contig: str, key: str | None) -> str:
        if origin == REFERENCE_ORIGIN:
            return contig if contig in caches else ""
        named = pieces.get(key or "", "")
        return named if origins.get(named) == origin else origin * (origin in origins.values())

    columns = (batch[column].to_pylist() for column in ("origin", "contig", "cache_key"))
    return [name(*row) for row in zip(*columns, strict=True)]


def _lead_back(batch: pa.RecordBatch, names: Sequence[str], hashes: Mapping[str, pa.ChunkedArray]) -> Bools:
    """Tell which rows point to a row of the inputs with their hash: bool, shape (n_rows,)."""
    rows, ours = pc.fill_null(batch["cache_row"], -1).to_numpy(), np.array(names, dtype=object)
    right: Bools = np.zeros(batch.num_rows, dtype=bool)
    for name in hashes.keys() & set(names):
        at = np.flatnonzero((ours == name) & (rows >= 0) & (rows < len(hashes[name])))
        right[at] = as_bools(pc.equal(hashes[name].take(pa.array(rows[at])), batch["window_hash"].take(pa.array(at))))
    return right


def add_rows(wrong: RowsAtFault, split: Split, batch: pa.RecordBatch, faults: Mapping[str, Bools]) -> None:
    """Add the rows of a batch that have a fault, with the names of their faults."""
    for at in np.flatnonzero(np.logical_or.reduce(list(faults.values()))).tolist():
        fault = "; ".join(name.replace("_", " ") for name, found in faults.items() if found[at])
        wrong.add(split=split, **batch.slice(at, 1).to_pylist()[0], fault=fault)
