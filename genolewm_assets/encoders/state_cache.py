"""Fill an array store with the states of windows, in their order, from where an interrupted run stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from genolewm_assets.encoders.identity import EncoderIdentity, StateEncoder
from genolewm_assets.encoders.state_checks import check_states
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.store.arrays import ArraySpec, ArrayStoreReader, ArrayStoreWriter, compute_fingerprint
from genolewm_assets.store.artefacts import BuildReport
from genolewm_assets.store.files import JsonValue
from genolewm_assets.store.tables import TableSchema, column

#: Name of the one array of such a store.
STATES = "states"

#: What a reader of the store sees; ``row`` and ``key`` lie in ``index.parquet``, the states in ``states.bin``.
STATE_ROWS = TableSchema(
    "state_rows",
    "window",
    pa.schema(
        [
            column("row", pa.int64(), "row of the window in its table"),
            column("key", pa.string(), "contig:start of a reference window, record_id:window_index of a corpus window"),
            column("states", pa.list_(pa.list_(pa.float32())), "block means, (n_blocks, hidden); NaN behind the end"),
        ]
    ),
    ("row",),
)

TABLES: tuple[TableSchema, ...] = (STATE_ROWS,)

#: Rows under one checksum; the bytes of the store depend on it. Each is committed: a row is dearer than a sync.
BATCH_ROWS = 64

#: Windows handed to the encoder at once; nothing depends on it.
ENCODED_AT_ONCE = 64


def state_config(identity: EncoderIdentity, *, windows_sha256: str, window_bp: int) -> dict[str, JsonValue]:
    """Return all that decides a cache: rebuilt windows or another encoder are another cache, beside the old one.

    Parameters
    ----------
    windows_sha256
        SHA-256 of the window table's Parquet file.
    window_bp
        Size of the longest window, in base pairs; every row has room for its blocks.
    """
    shape: list[JsonValue] = list(identity.row_shape(window_bp))
    return {"encoder": dict(identity.as_recipe()), "windows_sha256": windows_sha256, "row_shape": shape}


def write_states(
    directory: Path,
    config: Mapping[str, JsonValue],
    encoder: StateEncoder,
    *,
    keys: Sequence[str],
    sequences: Sequence[str],
    window_bp: int,
    sources: Mapping[str, str],
    progress: Progress = NO_PROGRESS,
) -> BuildReport:
    """Encode every window that has no row yet, finish the store, and check it.

    Parameters
    ----------
    directory
        New, or what an interrupted call left.
    config
        Of :func:`state_config`.
    keys, sequences
        One per window, in the order of the rows; keys are distinct.
    sources
        SHA-256 of what the windows came from, by name.

    Returns
    -------
    BuildReport
        Rows, bytes, and the checks of :mod:`genolewm_assets.encoders.state_checks`.
    """
    shape = encoder.identity.row_shape(window_bp)
    spec = ArraySpec(STATES, shape, encoder.identity.dtype.value)
    with ArrayStoreWriter(
        directory, [spec], key_config=config, commit_rows=BATCH_ROWS, batch_rows=BATCH_ROWS
    ) as writer:
        done = len(writer.resume_keys())
        for first in range(done, len(keys), ENCODED_AT_ONCE):
            batch = slice(first, first + ENCODED_AT_ONCE)
            states = encoder.encode_windows(sequences[batch], n_blocks=shape[0])
            writer.write_batch({STATES: states}, keys=list(keys[batch]))
            progress.advance(min(first + ENCODED_AT_ONCE, len(keys)) - done, len(keys) - done, "windows")
        writer.finalize(compute_fingerprint(config, sources))
    reader = ArrayStoreReader(directory)
    checks = check_states(
        lambda rows: reader.get_rows(list(rows), array=STATES),
        reader.n_rows,
        encoder,
        sequences,
        n_blocks=shape[0],
        progress=progress,
    )
    size = sum(path.stat().st_size for path in directory.iterdir())
    return BuildReport(
        counts={"windows": reader.n_rows, "size_bytes": size}, rows={"index.parquet": reader.n_rows}, checks=checks
    )
