"""Large tables in files without a name, whose pages can leave memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa

from genolewm_assets.store.tables.parquet import open_parquet, reading_parquet

#: Bytes of a table up to which it stays in memory.
_MOST_BYTES = 64 << 20
_ROWS = 65_536


def mapped_table(parts: Iterable[pa.Table | pa.RecordBatch], schema: pa.Schema, folder: Path | None = None) -> pa.Table:
    """Return rows as a table; beyond 64 MiB it is mapped from a file in a folder, None: that for temporary files."""
    left, kept, n_bytes = iter(parts), list[pa.Table | pa.RecordBatch](), 0
    while n_bytes <= _MOST_BYTES:
        part = next(left, None)
        if part is None:
            return pa.concat_tables([schema.empty_table(), *(pa.table(each) for each in kept)])
        kept.append(part)
        n_bytes += part.nbytes
    with tempfile.TemporaryFile(dir=folder) as file:
        with pa.ipc.new_stream(file, schema) as writer:
            while kept:
                writer.write(kept.pop(0))
            for part in left:
                writer.write(part)
        file.flush()
        return pa.ipc.open_stream(pa.py_buffer(np.memmap(file, np.uint8, "r"))).read_all()


def map_parquet(path: Path, folder: Path | None = None) -> pa.Table:
    """Return the rows of a Parquet file as :func:`mapped_table`; a damaged file is a CorruptResourceError."""
    with reading_parquet(path), open_parquet(path) as file:
        return mapped_table(file.iter_batches(_ROWS), file.schema_arrow, folder)
