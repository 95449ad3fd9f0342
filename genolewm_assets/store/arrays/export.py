"""Export a finished array store to one file that needs no code of this project to be read.

One row per row of the store; its columns are those of ``index.parquet``, the text of each side-car in a dictionary
column, and each array: as Arrow's canonical ``arrow.fixed_shape_tensor``, as plain numbers where a row of it is one
number, as nested fixed-size lists where the values are booleans, of which Arrow makes no tensors. Layout, key and
fingerprint are in the metadata of the schema, under :data:`METADATA_KEY`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from genolewm_assets.errors import CorruptResourceError, InputError
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.store.arrays.checksums import BUILD_AGAIN, read_checksums
from genolewm_assets.store.arrays.layout import INDEX, ArraySpec, sidecar_column
from genolewm_assets.store.arrays.reader import ArrayStoreReader
from genolewm_assets.store.arrays.rows import compact_json
from genolewm_assets.store.tables import TableFormat, check_output, write_table_file

#: Key of the schema's metadata: JSON with ``key``, ``layout``, ``fingerprint``, and ``columns``: which column holds
#: which array or side-car.
METADATA_KEY = b"genolewm.array_store"

# Memory that one batch of the file takes, about; and rows at most, for arrays of few bytes.
_BATCH_BYTES = 1 << 24
_BATCH_ROWS = 65_536


def export_array_store(
    directory: Path,
    output: Path,
    form: TableFormat = TableFormat.PARQUET,
    *,
    overwrite: bool = False,
    progress: Progress = NO_PROGRESS,
) -> int:
    """Write a finished store to one Parquet or Arrow IPC file, piece by piece, comparing every checksum on the way.

    The same store gives the same bytes.

    Parameters
    ----------
    directory
        The store, or a published link to it.
    overwrite
        Replace a file of that name.

    Returns
    -------
    int
        Rows written.

    Raises
    ------
    InputError
        If the output exists, its folder does not, or it lies in the store.
    MissingResourceError
        If there is no finished store.
    CorruptResourceError
        If the store differs from what was written; no file is made then.
    ResourceError
        If the storage refuses.
    """
    check_output(output, overwrite=overwrite)
    reader = ArrayStoreReader(directory, check=True, access="sequential")
    check_outside(output, reader.directory)
    names = _column_names(reader)
    schema = _schema(reader, names)
    write_table_file(output, schema, _batches(reader, schema, names, progress), form, overwrite=overwrite)
    return reader.n_rows


def check_outside(output: Path, directory: Path) -> None:
    """Raise :class:`InputError` if a file would lie in a published directory, which would no longer be its manifest's.

    Parameters
    ----------
    directory
        With its links resolved.
    """
    if output.parent.resolve().is_relative_to(directory):
        raise InputError(str(output), "lies in the store that is exported", remedy="Choose another output")


def rows_at_once(row_bytes: int) -> int:
    """Return how many rows one batch of an exported file holds."""
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES // row_bytes))


def by_rows(
    batches: Iterable[pa.RecordBatch], n_rows: int, progress: Progress
) -> Iterator[tuple[int, int, pa.RecordBatch]]:
    """Yield batches with the rows that they are, half-open, saying how far it has come."""
    first = 0
    for batch in batches:
        stop = first + batch.num_rows
        yield first, stop, batch
        first = stop
        progress.advance(first, n_rows, "rows")


def read_index(directory: Path, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield a store's ``index.parquet`` piece by piece, after comparing its checksum; nothing of it is kept."""
    with read_checksums(directory).open_index() as file:
        yield from file.iter_batches(batch_rows)


def _column_names(reader: ArrayStoreReader) -> dict[str, dict[str, str]]:
    """Name the columns that the index has not: of side-cars and arrays, ``_`` behind a name that is taken."""
    taken = set(reader.layout.index_schema.names)

    def free(name: str) -> str:
        while name in taken:
            name += "_"
        taken.add(name)
        return name

    return {
        "sidecars": {name: free(f"{name}_json") for name in reader.layout.sidecars},
        "arrays": {name: free(name) for name in reader.arrays},
    }


def _schema(reader: ArrayStoreReader, names: Mapping[str, Mapping[str, str]]) -> pa.Schema:
    document = {
        "key": reader.layout.key,
        "layout": {**reader.layout.as_json(), "n_rows": reader.n_rows},
        "fingerprint": reader.fingerprint,
        "columns": names,
    }
    texts = pa.dictionary(pa.int32(), pa.string())
    return pa.schema(
        [
            *reader.layout.index_schema,
            *(pa.field(column, texts) for column in names["sidecars"].values()),
            *(pa.field(names["arrays"][name], tensor_type(spec), False) for name, spec in reader.arrays.items()),
        ],
        metadata={METADATA_KEY: compact_json(document, str(reader.directory)).encode()},
    )


def _batches(
    reader: ArrayStoreReader, schema: pa.Schema, names: Mapping[str, Mapping[str, str]], progress: Progress
) -> Iterator[pa.RecordBatch]:
    # One array for all batches: an Arrow file has one dictionary per column.
    texts = {name: pa.array(reader.sidecar_texts(name), pa.string()) for name in names["sidecars"]}
    batch_rows = rows_at_once(sum(spec.row_bytes for spec in reader.layout.arrays))
    for first, stop, index in by_rows(read_index(reader.directory, batch_rows), reader.n_rows, progress):
        sidecars = (_texts(reader, name, index, by_key) for name, by_key in texts.items())
        arrays = (tensor_array(spec, reader.get_slice(first, stop, name)) for name, spec in reader.arrays.items())
        yield pa.RecordBatch.from_arrays([*index.columns, *sidecars, *arrays], schema=schema)


def _texts(reader: ArrayStoreReader, name: str, index: pa.RecordBatch, by_key: pa.Array) -> pa.DictionaryArray:
    try:
        return pa.DictionaryArray.from_arrays(index.column(sidecar_column(name)), by_key)
    except pa.ArrowException as err:
        raise CorruptResourceError(
            str(reader.directory / INDEX), f"has a key that side-car {name!r} has not ({err})", remedy=BUILD_AGAIN
        ) from err


def tensor_type(spec: ArraySpec) -> pa.DataType:
    """Return the Arrow type of an array's rows."""
    kind = pa.from_numpy_dtype(np.dtype(spec.dtype))
    if not spec.shape:
        return kind
    if spec.dtype != "bool":
        return pa.fixed_shape_tensor(kind, spec.shape)
    for size in reversed(spec.shape):
        kind = pa.list_(kind, size)
    return kind


def tensor_array(spec: ArraySpec, rows: npt.NDArray[Any]) -> pa.Array:
    """Return rows, shape (n, *spec.shape), as an Arrow array of :func:`tensor_type`; numbers are not copied."""
    values = pa.array(rows.reshape(-1))
    if not spec.shape:
        return values
    if spec.dtype != "bool":
        storage = pa.FixedSizeListArray.from_arrays(values, spec.row_bytes // spec.disk_dtype.itemsize)
        return pa.ExtensionArray.from_storage(tensor_type(spec), storage)
    for size in reversed(spec.shape):
        values = pa.FixedSizeListArray.from_arrays(values, size)
    return values
