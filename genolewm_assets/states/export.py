"""Export a cache of states as a Parquet shard of RFC-0002, for programs that read that layout.

The layout stores one float16 vector per window, so the blocks of a row are averaged over the whole window.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from genolewm_assets.errors import InputError, MissingResourceError
from genolewm_assets.genome import TOKEN_BP
from genolewm_assets.progress import NO_PROGRESS, ByteCount, Progress
from genolewm_assets.states.pooling import block_count, pool_blocks
from genolewm_assets.states.window_tables import WindowTable, window_table_of
from genolewm_assets.store.arrays import ArrayStoreReader, by_rows, check_outside, rows_at_once
from genolewm_assets.store.artefacts import enclosing_root, read_manifest
from genolewm_assets.store.files import JsonValue
from genolewm_assets.store.tables import TableFormat, check_output, write_table_file

#: RFC-0002 section 3.6 as ``geno-lewm`` 0.2.1 writes it (``encoder/cache.py``, schema version 1.0.0).
RFC_0002 = pa.schema(
    [
        ("chrom", pa.string()),
        ("start_bp", pa.int64()),
        ("end_bp", pa.int64()),
        ("window_hash", pa.binary(32)),
        ("encoder_hash", pa.binary(32)),
        ("state_layer", pa.int8()),
        ("pool_type", pa.string()),
        ("pool_radius", pa.int32()),
        ("dtype", pa.string()),
        ("embedding", pa.list_(pa.float16())),
        ("untargeted", pa.bool_()),
        ("created_at", pa.int64()),
        ("schema_version", pa.string()),
    ]
)

# Column that is exported as ``chrom``, by asset: contig, or the corpus record that the window was cut from.
_CHROM_COLUMNS = {"windows/index": "contig", "corpus/windows": "record_id"}
_DTYPES = {"float16": "fp16", "float32": "fp32"}


def export_states(
    directory: Path,
    output: Path,
    form: TableFormat = TableFormat.PARQUET,
    *,
    chosen: npt.NDArray[np.bool_] | None = None,
    overwrite: bool = False,
    progress: Progress = NO_PROGRESS,
) -> int:
    """Write a published cache of states with the columns of :data:`RFC_0002`, one row per window.

    ``encoder_hash`` is the SHA-256 of the model's weights; ``chrom`` of a corpus window is its record's id;
    ``created_at`` is 0. Only the rows ``chosen`` are written, bool, shape (n_rows,); None: all. Other parameters,
    result and errors are those of :func:`export_array_store`, and in addition:

    Raises
    ------
    InputError
        If a mean does not fit float16.
    MissingResourceError
        If ``directory`` is not a published cache, or its window table is not in the root.
    CorruptResourceError
        If the window table differs from what was written, or does not belong to this cache.
    """
    check_output(output, overwrite=overwrite)
    reader = ArrayStoreReader(directory, check=True, access="sequential")
    check_outside(output, reader.directory)
    root = enclosing_root(reader.directory)
    if root is None:
        raise MissingResourceError(
            str(directory), "is not in a root, so its window table is unknown", remedy="Name the published cache"
        )
    manifest = read_manifest(reader.directory)
    table = window_table_of(manifest, root)
    table.check_bytes(ByteCount(progress, table.size_bytes))
    table.check_rows(reader.n_rows)
    encoder = cast("Mapping[str, JsonValue]", manifest.recipe["encoder"])
    chosen = np.ones(reader.n_rows, np.bool_) if chosen is None else chosen
    write_table_file(output, RFC_0002, _batches(reader, table, encoder, chosen, progress), form, overwrite=overwrite)
    return int(np.count_nonzero(chosen))


def _batches(
    reader: ArrayStoreReader,
    table: WindowTable,
    encoder: Mapping[str, JsonValue],
    chosen: npt.NDArray[np.bool_],
    progress: Progress,
) -> Iterator[pa.RecordBatch]:
    """Yield the chosen rows of the export, schema :data:`RFC_0002`, in the order of the cache."""
    chrom_column, block_tokens = _CHROM_COLUMNS[table.artefact.asset], int(cast("int", encoder["block_tokens"]))
    constants = {
        "encoder_hash": bytes.fromhex(str(encoder["weights_sha256"])),
        "state_layer": encoder["layer"],
        "pool_type": "global_mean",
        "pool_radius": 0,
        "dtype": _DTYPES[str(encoder["dtype"])],
        "untargeted": True,
        "created_at": 0,
        "schema_version": "1.0.0",
    }
    batch_rows = rows_at_once(sum(spec.row_bytes for spec in reader.layout.arrays))
    windows_read = table.read_batches([chrom_column, "start", "end", "window_hash"], batch_rows)
    for first, stop, all_windows in by_rows(windows_read, reader.n_rows, progress):
        ours = chosen[first:stop]
        if not ours.any():
            continue
        windows, states = all_windows.filter(pa.array(ours)), reader.get_slice(first, stop)[ours]
        n_tokens = (windows.column("end").to_numpy() - windows.column("start").to_numpy()) // TOKEN_BP
        means = _means(states, n_tokens, block_tokens, f"{reader.directory}, rows from {first}")
        columns = {
            **{
                name: pa.repeat(pa.scalar(value, RFC_0002.field(name).type), len(means))
                for name, value in constants.items()
            },
            "chrom": windows.column(chrom_column),
            "start_bp": windows.column("start"),
            "end_bp": windows.column("end"),
            "window_hash": windows.column("window_hash"),
            "embedding": pa.ListArray.from_arrays(
                np.arange(0, means.size + 1, means.shape[1], dtype=np.int32), pa.array(means.reshape(-1))
            ),
        }
        yield pa.RecordBatch.from_arrays([columns[name] for name in RFC_0002.names], schema=RFC_0002)


def _means(
    states: npt.NDArray[Any], n_tokens: npt.NDArray[np.int64], block_tokens: int, where: str
) -> npt.NDArray[np.float16]:
    """Return the mean state over the tokens of each window: float16, shape (n_windows, hidden)."""
    means = np.empty((len(states), states.shape[2]), np.float16)
    for length in np.unique(n_tokens).tolist():
        chosen = n_tokens == length
        with np.errstate(over="ignore"):
            n_blocks = block_count(length, block_tokens)
            means[chosen] = pool_blocks(states[chosen], 0, n_blocks, length, block_tokens)
    if not np.isfinite(means).all():
        raise InputError(where, "a mean does not fit float16, the only precision of this layout")
    return means
