"""A root with the window tables of ``package_world`` and a cache of states for each, published as the graph does it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from genolewm_assets.genome import TOKEN_BP
from genolewm_assets.states import WindowSource
from genolewm_assets.states.pooling import block_count
from genolewm_assets.store import ArrayStoreWriter, compute_fingerprint, compute_key
from genolewm_assets.store.arrays.layout import ArraySpec
from genolewm_assets.store.artefacts.build import BuildPlan, BuildReport, build
from genolewm_assets.store.artefacts.published import ArtefactId, Published
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets_tests.worlds.lewm.package_world import GENOME_DIGEST, PROFILE, make_sources

HIDDEN, BLOCK_TOKENS = 5, 16
N_BLOCKS = block_count(PROFILE.window_bp // TOKEN_BP, BLOCK_TOKENS)
ENCODER = {
    "model_id": "org/tiny",
    "weights_sha256": "e" * 64,
    "layer": 2,
    "block_tokens": BLOCK_TOKENS,
    "dtype": "float32",
}


def publish_windows(root: Root, asset: str, partition: str, table: pa.Table) -> Published:
    folder = {"windows/index": "windows/tiny", "corpus/windows": "corpus"}[asset]

    def write(work: Path) -> BuildReport:
        pq.write_table(table, work / "windows.parquet")
        return BuildReport({"windows": table.num_rows}, {"windows.parquet": table.num_rows})

    recipe = {"rows": table.num_rows, "hashes": [digest.as_py().hex() for digest in table["window_hash"]]}
    return build(root, BuildPlan(ArtefactId(asset, partition), f"{folder}/{partition}", "1", recipe, (), write))


def listed_windows(sequences: Sequence[str], source: str = "chr17") -> WindowSource:
    """Return windows to encode with the keys ``<source>:<row>``, in one batch."""
    lengths = np.array([len(sequence) for sequence in sequences], np.int64)
    keys = [f"{source}:{row}" for row in range(len(sequences))]
    batch = pa.RecordBatch.from_pydict({"key": keys, "sequence": list(sequences)})
    return WindowSource(lengths, lambda: iter([batch]), lambda rows: [sequences[row] for row in rows])


def token_counts(table: pa.Table) -> list[int]:
    spans = zip(table["start"].to_pylist(), table["end"].to_pylist(), strict=True)
    return [(end - start) // TOKEN_BP for start, end in spans]


def states_of(table: pa.Table) -> np.ndarray:
    """Block states drawn per row, NaN behind a window's last block: float32, shape (n, N_BLOCKS, HIDDEN)."""
    states = np.random.default_rng(table.num_rows).standard_normal((table.num_rows, N_BLOCKS, HIDDEN)).astype("f4")
    for row, n_tokens in enumerate(token_counts(table)):
        states[row, block_count(n_tokens, BLOCK_TOKENS) :] = np.nan
    return states


def publish_cache(root: Root, windows: Published, *, code_version: str = "1") -> Published:
    (sha256,) = [entry.sha256 for entry in windows.manifest.files if entry.path == "windows.parquet"]
    config = {"encoder": ENCODER, "windows_sha256": sha256, "row_shape": [N_BLOCKS, HIDDEN]}
    table = pq.ParquetFile(windows.file("windows.parquet")).read()

    def write(work: Path) -> BuildReport:
        spec = ArraySpec("states", (N_BLOCKS, HIDDEN), "float32")
        with ArrayStoreWriter(work, [spec], key_config=config) as writer:
            writer.write_batch({"states": states_of(table)}, keys=[str(row) for row in range(table.num_rows)])
            writer.finalize(compute_fingerprint(config, {}))
        return BuildReport({"windows": table.num_rows})

    asset = {"windows/index": "embeddings/cache", "corpus/windows": "embeddings/corpus"}[windows.artefact.asset]
    artefact = ArtefactId(asset, windows.artefact.partition)
    location = f"embeddings/{compute_key(config)}"
    return build(root, BuildPlan(artefact, location, code_version, config, (windows.ref,), write))


def make_root(folder: Path) -> tuple[Root, dict[str, tuple[Published, Published]]]:
    """Return a root, and window table and cache by contig or corpus source."""
    root, sources = Root(folder), make_sources()
    root.claim("tiny", GENOME_DIGEST)
    tables = [("windows/index", *item) for item in sources.windows.items()]
    tables += [("corpus/windows", *item) for item in sources.corpus.items()]
    windows = {partition: publish_windows(root, asset, partition, table) for asset, partition, table in tables}
    return root, {partition: (table, publish_cache(root, table)) for partition, table in windows.items()}
