"""A published package with true caches: the tables of ``package_world`` and block states of every window."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.encoders import state_config, write_states
from genolewm_assets.encoders.identity import StateEncoder
from genolewm_assets.package_build.sources import PackageSources
from genolewm_assets.packages.schema import CacheRef
from genolewm_assets.states.pooling import block_count
from genolewm_assets.store import ArrayStoreWriter, compute_fingerprint, compute_key
from genolewm_assets.store.arrays.layout import ArraySpec
from genolewm_assets.store.artefacts.build import BuildPlan, BuildReport, build
from genolewm_assets.store.artefacts.published import ArtefactId
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets_tests.worlds.lewm.cache_world import listed_windows
from genolewm_assets_tests.worlds.lewm.package_world import (
    GENOME_DIGEST,
    PROFILE,
    SEQUENCES,
    make_sources,
    publish,
    with_pieces,
)

HIDDEN = 6
N_BLOCKS = block_count(PROFILE.window_bp // 6)


def states_of(sequence: str) -> NDArray[np.float32]:
    """Return block states made from the window alone: shares of bases, bytes of a digest; NaN behind them."""
    states = np.full((N_BLOCKS, HIDDEN), np.nan, np.float32)
    for block in range(block_count(len(sequence) // 6)):
        part = sequence[block * 384 : (block + 1) * 384]
        digest = hashlib.sha256(part.encode()).digest()
        states[block] = [*(part.count(base) / len(part) for base in "ACGT"), digest[0], digest[1]]
    return states


def publish_cache(
    root: Root, source: str, sequences: list[str], encode: Callable[[list[str]], NDArray[np.float32]]
) -> CacheRef:
    """Build one cache as the asset graph does."""
    states = encode(sequences)
    windows_sha256 = hashlib.sha256("".join([source, *sequences]).encode()).hexdigest()
    config = {"source": source, "sequences": windows_sha256}
    key = compute_key(config)

    def write(work: Path) -> BuildReport:
        spec = ArraySpec("states", states.shape[1:], states.dtype.name)
        with ArrayStoreWriter(work, [spec], key_config=config) as writer:
            for row in range(len(sequences)):
                writer.write({"states": states[row]}, key=str(row))
            writer.finalize(compute_fingerprint(config, {}))
        return BuildReport({"windows": len(sequences)}, {}, ())

    artefact = ArtefactId("embeddings/cache", source)
    published = build(root, BuildPlan(artefact, f"embeddings/{key}", "1", config, (), write))
    return CacheRef(source, key, len(sequences), windows_sha256, published.manifest.sha256, f"embeddings/{key}")


def simulated_states(sequences: list[str]) -> NDArray[np.float32]:
    return np.stack([states_of(sequence) for sequence in sequences])


def publish_package(
    folder: Path,
    *,
    encode: Callable[[list[str]], NDArray[np.float32]] | None = simulated_states,
    in_pieces: bool = False,
    **changes: object,
) -> Path:
    """Publish the package of ``package_world``, with ``encode`` also its caches, in a root of its own."""
    root = Root(folder / "root")
    root.claim("tiny", GENOME_DIGEST)
    sources: PackageSources = make_sources(**changes)
    refs = tuple(publish_cache(root, *cache, encode) for cache in window_texts(sources).items()) if encode else ()
    if in_pieces:
        sources = with_pieces(root, sources)
        digests = {ref.source: ref.windows_sha256 for ref in sources.caches}
        refs = tuple(replace(ref, windows_sha256=digests[ref.source]) for ref in refs)
    return publish(root, replace(sources, caches=refs)).directory


def window_texts(sources: PackageSources) -> dict[str, list[str]]:
    texts = {}
    for contig, table in sources.windows.items():
        spans = zip(table["start"].to_pylist(), table["end"].to_pylist(), strict=True)
        texts[contig] = [SEQUENCES[contig][start:end].decode() for start, end in spans]
    return texts | {source: table["sequence"].to_pylist() for source, table in sources.corpus.items()}


def publish_encoded(folder: Path, encoder: StateEncoder) -> Path:
    """Publish the package of ``package_world`` with caches that ``write_states`` fills, and whose checks passed."""
    root, sources = Root(folder / "root"), make_sources()
    root.claim("tiny", GENOME_DIGEST)
    refs = [publish_states(root, source, texts, encoder) for source, texts in window_texts(sources).items()]
    return publish(root, replace(sources, caches=tuple(refs))).directory


def publish_states(root: Root, source: str, sequences: list[str], encoder: StateEncoder) -> CacheRef:
    """Build one cache with the code of ``embeddings/cache``, under the key that the asset graph computes."""
    windows_sha256 = hashlib.sha256("".join([source, *sequences]).encode()).hexdigest()
    config = state_config(encoder.identity, windows_sha256=windows_sha256, window_bp=PROFILE.window_bp)
    location = f"embeddings/{compute_key(config)}"

    def write(work: Path) -> BuildReport:
        windows = listed_windows(sequences, source)
        return write_states(work, config, encoder, windows, window_bp=PROFILE.window_bp, sources={})

    artefact = ArtefactId("embeddings/cache", source)
    published = build(root, BuildPlan(artefact, location, "1", config, (), write))
    assert all(check.passed for check in published.manifest.checks), published.manifest.checks
    return CacheRef(source, compute_key(config), len(sequences), windows_sha256, published.manifest.sha256, location)
