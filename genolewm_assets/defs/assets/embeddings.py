"""``embeddings/cache`` and ``embeddings/corpus``: block-pooled states of every window, computed once on an H100."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np

from genolewm_assets.defs.assets.corpus import corpus_windows
from genolewm_assets.defs.assets.observations import encoder_source
from genolewm_assets.defs.assets.reference import reference_genome
from genolewm_assets.defs.assets.windows import windows_index
from genolewm_assets.defs.display import describe_published, in_words, made_here, of, plotted
from genolewm_assets.defs.runtime import (
    BY_ENCODED_CONTIG,
    BY_ENCODED_PIECE,
    RECOMPUTED,
    GatedAsset,
    Plan,
    Workspace,
    configured_batch,
    configured_device,
    on_every_partition,
    on_key_of,
    reference_opener,
)
from genolewm_assets.encoders import (
    NOTHING_ROUNDED,
    PRECISION_SUFFICIENT,
    STATE_CHECKS,
    STATE_ROWS,
    STATES,
    spread,
    write_states,
)
from genolewm_assets.errors import GenoLeWMError, counted
from genolewm_assets.progress import Progress
from genolewm_assets.states import WindowSource, index_cache, windows_of_contig, windows_of_corpus
from genolewm_assets.store.arrays import ArrayStoreReader, compute_key
from genolewm_assets.store.artefacts import (
    BuildPlan,
    BuildReport,
    CheckResult,
    Published,
    read_manifest,
    stating_compared,
)
from genolewm_assets.store.files import JsonValue, resolve_generation


def plan_cache(workspace: Workspace, contig_name: str, progress: Progress) -> Plan:
    """Plan the states of one contig's windows."""
    contig = workspace.contigs[contig_name]
    genome, windows = reference_genome.open(workspace), windows_index.open(workspace, contig.name)

    def read() -> WindowSource:
        bases = reference_opener(genome, workspace.contigs)(contig)
        return windows_of_contig(windows.file("windows.parquet"), contig.name, bases)

    return _plan(workspace, (windows, genome), read, progress)


def plan_corpus(workspace: Workspace, piece: str, progress: Progress) -> Plan:
    """Plan the states of the windows of one piece of the corpus."""
    windows = corpus_windows.open(workspace, piece)
    return _plan(workspace, (windows,), lambda: windows_of_corpus(windows.file("windows.parquet")), progress)


def _plan(
    workspace: Workspace, inputs: tuple[Published, ...], read: Callable[[], WindowSource], progress: Progress
) -> Plan:
    window_bp = workspace.catalog.window_profile.window_bp
    config = workspace.cache_config(inputs[0].manifest)
    (table,) = (entry for entry in inputs[0].manifest.files if entry.path == "windows.parquet")
    size_bytes = (table.rows or 0) * workspace.encoder_identity.row_bytes(window_bp)

    def write(work: Path) -> BuildReport:
        return write_states(
            work,
            config,
            workspace.load_encoder(configured_device(), **configured_batch()),
            read(),
            window_bp=window_bp,
            sources={str(published.artefact): published.manifest.sha256 for published in inputs},
            progress=progress,
        )

    return Plan(
        recipe=config,
        inputs=inputs,
        write=write,
        note=f"{counted(table.rows or 0, 'window')} to encode, {size_bytes / 1e6:,.1f} MB of states",
    )


def describe_states(published: Published) -> dict[str, dg.MetadataValue]:
    """Return the metadata of states: rows, size, quantiles of block norms over up to 256 windows, facts of the run."""
    from genolewm_assets.defs.display import draw_norms

    reader = ArrayStoreReader(published.directory)
    states = reader.get_rows(spread(reader.n_rows, 256), array=STATES).astype(np.float64)
    norms = np.linalg.norm(states, axis=2)
    norms = norms[np.isfinite(norms)]
    low, middle, high = np.quantile(norms, [0.01, 0.5, 0.99]).tolist() if norms.size else (None, None, None)
    return {
        **describe_published(published, rows=reader.n_rows, stated=published.manifest.counts),
        **_run_metadata(published.run_facts),
        **plotted(norm_p1=low, norm_median=middle, norm_p99=high),
        **in_words(blocks_a_window=states.shape[1]),
        "state_norms": draw_norms(norms, source=str(published.artefact.partition)),
    }


def _run_metadata(facts: Mapping[str, JsonValue]) -> dict[str, dg.MetadataValue]:
    """Return what encoded the windows, and how fast, as metadata."""
    texts = {name: dg.MetadataValue.text(fact) for name, fact in facts.items() if isinstance(fact, str)}
    numbers = {name: fact for name, fact in facts.items() if isinstance(fact, int | float)}
    batch = numbers.pop("batch_windows", None)  # follows from the device
    return {**texts, **plotted(**numbers), **in_words(batch_windows=batch)}


def state_precision(_: Workspace, published: Published) -> tuple[CheckResult, ...]:
    """Return the check of the precision of states in float32, whose manifests do not have it; else none."""
    if any(check.name == PRECISION_SUFFICIENT for check in published.manifest.checks):
        return ()
    nothing = CheckResult(PRECISION_SUFFICIENT, passed=True)
    return (stating_compared(nothing, 0, NOTHING_ROUNDED, declared=True),)


def index_windows(workspace: Workspace, plan: BuildPlan, published: Published) -> dict[str, dg.MetadataValue]:
    """Make the look-up of window hashes; a failure is logged and returned as metadata, and does not fail the run."""
    try:
        index_cache(workspace.root, published.directory)
    except (GenoLeWMError, OSError) as err:
        message = (
            f"{plan.artefact} is published as {published.directory.name}, but its windows cannot be searched: {err}"
        )
        dg.get_dagster_logger().error(f"{message} Run: genolewm cache index --root {workspace.root.path}")
        return {"window_hashes": dg.MetadataValue.text(message)}
    return {"window_hashes": dg.MetadataValue.text(counted(published.manifest.counts["windows"], "row"))}


def _keyed_by(windows: GatedAsset) -> Callable[[Workspace, str], str]:
    """Return the ``place`` of the states of a window table: a path named by the key of the cache configuration."""

    def place(workspace: Workspace, partition: str) -> str:
        manifest = read_manifest(resolve_generation(workspace.root.link_of(windows.location(workspace, partition))))
        return f"embeddings/{compute_key(workspace.cache_config(manifest))}"

    return place


#: Arguments that the two assets have in common.
_STATES: Mapping[str, Any] = {
    "kinds": {"pytorch", "huggingface", "h100"},
    "automation": RECOMPUTED,
    "table": STATE_ROWS,
    "checks": STATE_CHECKS,
    # Not among the checks that automation waits for: of caches that are published already there is no result of it. A
    # build that fails it is not published.
    "advisories": (PRECISION_SUFFICIENT,),
    "advise": state_precision,
    "entries": {
        "norm_p1, norm_median, norm_p99": (
            "1st, 50th and 99th percentile of the Euclidean norm of a block's state, over at most 256 windows"
        ),
        "blocks_a_window": "blocks of 384 bases (64 6-mers) in a window",
        "window_hashes": "rows that `genolewm cache find` finds by the hash of their window",
        "device, compute, dtype, torch, transformers": (
            "what the run that built the states computed them on, in which precision, stored as what, with which "
            "libraries"
        ),
        "windows_encoded, encoding_s, windows_per_s, batch_windows": (
            "windows that the run encoded itself, seconds that it took with writing, their rate, windows per forward "
            "pass"
        ),
        "tflops, matrix_tflops, share_of_matrix_rate": (
            "10^12 operations a second of the encoding, those of products of large matrices on the same device and in "
            "the same precision, and the former divided by the latter"
        ),
        "state_norms": "how many blocks have which norm",
    },
    "describe": describe_states,
    "after": index_windows,
    "h100": True,
    "shelf": "embeddings",
    "array_store": True,
    "resumable": True,
}

embeddings_cache = GatedAsset(
    key="embeddings/cache",
    description="""
    One row per reference window: the states of the frozen language model, averaged over blocks of 384 bp.

    Training reads these rows instead of encoding each window again for every edit and epoch, which would cost more than
    training itself. Row i belongs to row i of `windows/index`. Has no partitions if the encoder is off.
    """,
    code_version="2",
    place=_keyed_by(windows_index),
    deps=(
        on_key_of(BY_ENCODED_CONTIG, windows_index),
        on_every_partition(reference_genome),
        on_every_partition(encoder_source),
    ),
    partitions=BY_ENCODED_CONTIG,
    sources={
        **made_here("row"),
        "key": of(windows_index, "contig", "start"),
        "states": of(windows_index, "start", "end"),
    },
    plan=plan_cache,
    **_STATES,
)

embeddings_corpus = GatedAsset(
    key="embeddings/corpus",
    description="""
    One row per corpus window: the states of the frozen language model, averaged over blocks of 384 bp.

    Training reads these rows instead of encoding windows again. Row i belongs to row i of `corpus/windows`; blocks past
    the end of a shorter window are NaN. Has no partitions if the encoder is off.
    """,
    code_version="2",
    place=_keyed_by(corpus_windows),
    deps=(on_key_of(BY_ENCODED_PIECE, corpus_windows), on_every_partition(encoder_source)),
    partitions=BY_ENCODED_PIECE,
    sources={
        **made_here("row"),
        "key": of(corpus_windows, "record_id", "window_index"),
        "states": of(corpus_windows, "sequence"),
    },
    plan=plan_corpus,
    **_STATES,
)
