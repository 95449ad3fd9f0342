"""Tables in files without a name, whose pages can leave memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa

from genolewm_assets.store.tables.parquet import open_parquet, reading_parquet

_ROWS = 65_536


def mapped_table(parts: Iterable[pa.Table | pa.RecordBatch], schema: pa.Schema, folder: Path | None = None) -> pa.Table:
    """Return rows as a table that is mapped from a file in a folder; None: the system's for temporary files."""
    with tempfile.TemporaryFile(dir=folder) as file:
        with pa.ipc.new_stream(file, schema) as writer:
            for part in parts:
                writer.write(part)
        file.flush()
        return pa.ipc.open_stream(pa.py_buffer(np.memmap(file, np.uint8, "r"))).read_all()


def map_parquet(path: Path, folder: Path | None = None) -> pa.Table:
    """Return the rows of a Parquet file as :func:`mapped_table`; a damaged file is a CorruptResourceError."""
    with reading_parquet(path), open_parquet(path) as file:
        return mapped_table(file.iter_batches(_ROWS), file.schema_arrow, folder)
