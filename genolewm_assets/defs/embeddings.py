"""``embeddings/cache`` and ``embeddings/corpus``: block-pooled states of every window, computed once on an H100."""

from collections.abc import Callable
from pathlib import Path

import dagster as dg
import numpy as np
import pyarrow.parquet as pq

from genolewm_assets.defs.automation import RECOMPUTED
from genolewm_assets.defs.failure_hook import report_failure
from genolewm_assets.defs.gates import GatedAsset, GatedEvents
from genolewm_assets.defs.metadata import OWNERS, asset_tags, definition_metadata, describe_published, plotted
from genolewm_assets.defs.op_tags import H100_ASSET_TAGS, H100_OP_TAGS, H100_POOL
from genolewm_assets.defs.partitions import (
    corpus_source_partitions,
    linear_contig_partitions,
    on_every_partition,
    on_same_key,
)
from genolewm_assets.defs.resources import WorkspaceResource, configured_device
from genolewm_assets.defs.workspace import Workspace, reference_reader
from genolewm_assets.encoders.state_cache import STATE_ROWS, STATES, write_states
from genolewm_assets.encoders.state_checks import STATE_CHECKS, spread
from genolewm_assets.errors import GenoLeWMError
from genolewm_assets.lewm.cache_index import refresh_cache_index
from genolewm_assets.store import ArrayStoreReader, ArtefactId, BuildPlan, BuildReport, Progress, Published

CODE_VERSION = "1"

# Seconds to wait for another partition's refresh of the index.
_INDEX_WAIT_S = 600.0

#: Keys and sequences of a window table, in its order.
ReadWindows = Callable[[], tuple[list[str], list[str]]]


def plan_cache(workspace: Workspace, contig_name: str | None, progress: Progress) -> BuildPlan:
    """Plan the states of one contig's windows."""
    contig = workspace.contigs[str(contig_name)]
    genome, windows = workspace.open_input("reference/genome"), workspace.open_input("windows/index", contig.name)

    def read() -> tuple[list[str], list[str]]:
        bases = reference_reader(genome, workspace.contigs)(contig)
        table = pq.read_table(windows.file("windows.parquet"), columns=["start", "end"])
        spans = list(zip(table["start"].to_pylist(), table["end"].to_pylist(), strict=True))
        return [f"{contig.name}:{start}" for start, _ in spans], [bases[a:b].decode("ascii") for a, b in spans]

    return _plan(workspace, ArtefactId("embeddings/cache", contig.name), (windows, genome), read, progress)


def plan_corpus(workspace: Workspace, source: str | None, progress: Progress) -> BuildPlan:
    """Plan the states of one corpus source's windows."""
    windows = workspace.open_input("corpus/windows", source)

    def read() -> tuple[list[str], list[str]]:
        columns = ["record_id", "window_index", "sequence"]
        table = pq.read_table(windows.file("windows.parquet"), columns=columns).to_pydict()
        pairs = zip(table["record_id"], table["window_index"], strict=True)
        return [f"{record}:{index}" for record, index in pairs], table["sequence"]

    return _plan(workspace, ArtefactId("embeddings/corpus", source), (windows,), read, progress)


def _plan(
    workspace: Workspace,
    artefact: ArtefactId,
    inputs: tuple[Published, ...],
    read: ReadWindows,
    progress: Progress,
) -> BuildPlan:
    window_bp = workspace.catalog.window_profile.window_bp
    config = workspace.cache_config(inputs[0].manifest)
    (table,) = (entry for entry in inputs[0].manifest.files if entry.path == "windows.parquet")
    size_bytes = (table.rows or 0) * workspace.encoder_identity.row_bytes(window_bp)

    def write(work: Path) -> BuildReport:
        keys, sequences = read()
        return write_states(
            work,
            config,
            workspace.load_encoder(configured_device()),
            keys=keys,
            sequences=sequences,
            window_bp=window_bp,
            sources={str(published.artefact): published.manifest.sha256 for published in inputs},
            progress=progress,
        )

    return BuildPlan(
        artefact=artefact,
        location=workspace.location(artefact),
        code_version=CODE_VERSION,
        recipe=config,
        inputs=tuple(published.ref for published in inputs),
        write=write,
        resumable=True,
        note=f"{table.rows or 0:,} windows to encode, {size_bytes / 1e6:,.1f} MB of states",
    )


def describe_states(published: Published) -> dict[str, dg.MetadataValue]:
    """Show rows, size and how large the states are."""
    from genolewm_assets.defs.pictures import draw_norms

    reader = ArrayStoreReader(published.directory)
    states = reader.get_rows(spread(reader.n_rows, 256), array=STATES).astype(np.float64)
    norms = np.linalg.norm(states, axis=2)
    norms = norms[np.isfinite(norms)]
    low, middle, high = np.quantile(norms, [0.01, 0.5, 0.99]).tolist() if norms.size else (None, None, None)
    return {
        **describe_published(published, rows=reader.n_rows),
        **plotted(norm_p1=low, norm_median=middle, norm_p99=high, blocks_a_window=states.shape[1]),
        "state_norms": draw_norms(norms, source=str(published.artefact.partition)),
    }


def refresh_index(workspace: Workspace, plan: BuildPlan, published: Published) -> dict[str, dg.MetadataValue]:
    """Bring the index over window hashes up to date, or show and log why it could not be.

    It is derived, and says itself when it is out of date: the states, which are published by now, are not given up for
    it. Whoever publishes the next cache refreshes it too.
    """
    try:
        report = refresh_cache_index(workspace.root, wait_s=_INDEX_WAIT_S)
    except GenoLeWMError as err:
        said = f"{plan.artefact} is published as {published.directory.name}, but the index is out of date: {err}"
        dg.get_dagster_logger().error(f"{said} Run: genolewm cache index --root {workspace.root.path}")
        return {"window_hashes": dg.MetadataValue.text(said)}
    omitted = "".join(f"; not covered: {location}" for location in report.omitted)
    said = f"{report.path}: {len(report.caches):,} caches, {report.hashes:,} hashes, {report.rows:,} rows{omitted}"
    return {"window_hashes": dg.MetadataValue.text(said)}


CACHE = GatedAsset(
    key="embeddings/cache", checks=STATE_CHECKS, plan=plan_cache, describe=describe_states, after=refresh_index
)
CORPUS = GatedAsset(
    key="embeddings/corpus", checks=STATE_CHECKS, plan=plan_corpus, describe=describe_states, after=refresh_index
)


@dg.asset(
    key=["embeddings", "cache"],
    deps=[on_same_key("windows/index"), on_every_partition("reference/genome")],
    partitions_def=linear_contig_partitions,
    automation_condition=RECOMPUTED,
    group_name="embeddings",
    code_version=CODE_VERSION,
    check_specs=CACHE.check_specs(linear_contig_partitions),
    metadata=definition_metadata("embeddings/cache", STATE_ROWS),
    owners=OWNERS,
    hooks={report_failure},
    kinds={"pytorch", "huggingface", "h100"},
    tags={**asset_tags("contig"), **H100_ASSET_TAGS},
    op_tags=H100_OP_TAGS,
    pool=H100_POOL,
)
def embeddings_cache(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> GatedEvents:
    """One row per reference window: the frozen language model's states, averaged over blocks of 64 tokens.

    Encoding a window again for every edit in every epoch would cost more than training; a trainer reads these rows at
    memory speed. Row i belongs to row i of the window index.
    """
    yield from CACHE.run(context, workspace.open())


@dg.asset(
    key=["embeddings", "corpus"],
    deps=[on_same_key("corpus/windows")],
    partitions_def=corpus_source_partitions,
    automation_condition=RECOMPUTED,
    group_name="embeddings",
    code_version=CODE_VERSION,
    check_specs=CORPUS.check_specs(corpus_source_partitions),
    metadata=definition_metadata("embeddings/corpus", STATE_ROWS),
    owners=OWNERS,
    hooks={report_failure},
    kinds={"pytorch", "huggingface", "h100"},
    tags={**asset_tags("corpus_source"), **H100_ASSET_TAGS},
    op_tags=H100_OP_TAGS,
    pool=H100_POOL,
)
def embeddings_corpus(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> GatedEvents:
    """One row per corpus window: the frozen language model's states, averaged over blocks of 64 tokens.

    Row i belongs to row i of the source's corpus windows; blocks behind the end of a shorter window hold no number.
    """
    yield from CORPUS.run(context, workspace.open())
