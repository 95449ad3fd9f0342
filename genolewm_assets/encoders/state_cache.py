"""Write the states of windows into an array store, one row per window, continuing an interrupted run."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from numpy.typing import NDArray

from genolewm_assets.encoders.identity import EncoderIdentity, StateEncoder
from genolewm_assets.encoders.state_checks import check_states
from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.states import WindowSource, cache_config
from genolewm_assets.store.arrays import ArraySpec, ArrayStoreReader, ArrayStoreWriter, compute_fingerprint
from genolewm_assets.store.artefacts import BuildReport
from genolewm_assets.store.files import JsonValue
from genolewm_assets.store.tables import TableSchema, column, map_ahead

#: Name of the only array of a store of states.
STATES = "states"

#: Columns of a store of states: ``row`` and ``key`` are in ``index.parquet``, the states in ``states.bin``.
STATE_ROWS = TableSchema(
    "state_rows",
    "window",
    pa.schema(
        [
            column("row", pa.int64(), "row of the window in its table"),
            column("key", pa.string(), "contig:start of a reference window, record_id:window_index of a corpus window"),
            column(
                "states",
                pa.list_(pa.list_(pa.float32())),
                "block means, (n_blocks, hidden); NaN past the end of a shorter window",
            ),
        ]
    ),
    ("row",),
)

TABLES: tuple[TableSchema, ...] = (STATE_ROWS,)

#: Rows per checksum, which the bytes of the store depend on, and rows per commit: syncing costs less than encoding.
BATCH_ROWS = 64

#: Windows per call of the encoder; the result does not depend on it.
ENCODED_AT_ONCE = 64

#: Threads that encode: while the device computes the windows of one, the other makes the tokens of the next or converts
#: the states of the last. Rows are written by the calling thread meanwhile.
_ENCODING_THREADS = 2
#: Results, beyond one per thread, that may wait to be written.
_WAITING = 1


def state_config(identity: EncoderIdentity, *, windows_sha256: str, window_bp: int) -> dict[str, JsonValue]:
    """Return the configuration of a cache of states; its key names the cache.

    Rebuilt windows or another encoder give another key, so that the new cache is stored beside the old one.

    Parameters
    ----------
    windows_sha256
        SHA-256 of the window table's Parquet file.
    window_bp
        Size of the longest window, in bases; every row has as many blocks as this window.
    """
    return cache_config(identity.as_recipe(), windows_sha256=windows_sha256, row_shape=identity.row_shape(window_bp))


def write_states(
    directory: Path,
    config: Mapping[str, JsonValue],
    encoder: StateEncoder,
    windows: WindowSource,
    *,
    window_bp: int,
    sources: Mapping[str, str],
    progress: Progress = NO_PROGRESS,
) -> BuildReport:
    """Encode every window that has no row yet, finish the store, and check it.

    Parameters
    ----------
    directory
        Folder of the store: new, or with the rows of an interrupted call, which are kept.
    config, encoder
        Configuration from :func:`state_config`, and the encoder with the identity in it.
    windows
        The windows, in row order; read once, and some of them again for the checks.
    window_bp
        Size of the longest window, in bases.
    sources
        SHA-256 of every source of the windows, by name.
    progress
        Receives the number of windows encoded, then checked.

    Returns
    -------
    BuildReport
        Number of rows, size in bytes, and the checks of :mod:`genolewm_assets.encoders.state_checks`. ``run``:
        ``windows_encoded`` by this call, ``encoding_s``, seconds from the first window to the last row on disk, and the
        figures of the encoder's ``describe_run``.

    Raises
    ------
    ConfigurationError, BusyError, VersionError, InputError, ResourceError
        As :class:`ArrayStoreWriter`; also the errors of the encoder and of the windows.
    CorruptResourceError
        If the rows that are kept have other keys than the windows.
    """
    shape = encoder.identity.row_shape(window_bp)
    spec = ArraySpec(STATES, shape, encoder.identity.dtype.value)
    with ArrayStoreWriter(
        directory, [spec], key_config=config, commit_rows=BATCH_ROWS, batch_rows=BATCH_ROWS
    ) as writer:
        encoded, seconds = encode_rows(writer, encoder, windows, progress)
        writer.finalize(compute_fingerprint(config, sources))
    reader = ArrayStoreReader(directory)
    checks = check_states(
        lambda rows: reader.get_rows(list(rows), array=STATES),
        reader.n_rows,
        encoder,
        windows,
        n_blocks=shape[0],
        folder=directory.parent,
        progress=progress,
    )
    size = sum(path.stat().st_size for path in directory.iterdir())
    return BuildReport(
        counts={"windows": reader.n_rows, "size_bytes": size},
        rows={"index.parquet": reader.n_rows},
        checks=checks,
        run={
            "windows_encoded": encoded,
            "encoding_s": round(seconds, 3),
            **encoder.describe_run(n_windows=encoded, seconds=seconds, window_bp=window_bp),
        },
    )


def encode_rows(
    writer: ArrayStoreWriter, encoder: StateEncoder, windows: WindowSource, progress: Progress = NO_PROGRESS
) -> tuple[int, float]:
    """Encode and commit the windows without a row; return their number and the seconds that it took."""
    n_blocks = writer.layout.arrays[0].shape[0]
    done, started = writer.n_rows, time.monotonic()

    def encode(part: pa.RecordBatch) -> tuple[list[str], NDArray[Any]]:
        return part["key"].to_pylist(), encoder.encode_windows(part["sequence"].to_pylist(), n_blocks=n_blocks)

    with closing(map_ahead(encode, _new_parts(writer, windows), threads=_ENCODING_THREADS, ahead=_WAITING)) as results:
        for keys, states in results:
            writer.write_batch({STATES: states}, keys=keys)
            progress.advance(writer.n_rows - done, len(windows.lengths) - done, "windows")
    return writer.n_rows - done, time.monotonic() - started


def _new_parts(writer: ArrayStoreWriter, windows: WindowSource) -> Iterator[pa.RecordBatch]:
    """Yield the windows behind the stored rows, which must have the keys of the windows before them."""
    stored, left = writer.stored_keys(), writer.n_rows
    for batch in windows.read():
        skipped = min(left, batch.num_rows)
        left -= skipped
        for key, kept in zip(batch["key"][:skipped].to_pylist(), islice(stored, skipped), strict=True):
            if key != kept:
                raise CorruptResourceError(
                    str(writer.directory),
                    "the rows of the interrupted build are of other windows",
                    expected=repr(key),
                    got=repr(kept),
                    remedy="Materialise again, from the first row",
                )
        for first in range(skipped, batch.num_rows, ENCODED_AT_ONCE):
            yield batch.slice(first, ENCODED_AT_ONCE)
