"""Export a finished array store to one Parquet or Arrow IPC file that is read without code of this project.

The columns are those of ``index.parquet``, one dictionary column per side-car with the JSON texts, and one column per
array: Arrow's ``fixed_shape_tensor``, plain numbers for arrays of one number per row, nested fixed-size lists for
booleans, which Arrow tensors do not support. The schema metadata has layout, key and fingerprint.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from genolewm_assets.errors import InputError
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.store.arrays.checksums import read_checksums
from genolewm_assets.store.arrays.keys import damaged
from genolewm_assets.store.arrays.layout import INDEX, ArraySpec, sidecar_column
from genolewm_assets.store.arrays.reader import ArrayStoreReader
from genolewm_assets.store.arrays.rows import compact_json
from genolewm_assets.store.tables import TableFormat, check_output, write_table_file

#: Key in the schema metadata. Its value is JSON with ``key``, ``layout``, ``fingerprint``, and ``columns``: the names
#: of the columns by array and by side-car.
METADATA_KEY = b"genolewm.array_store"

# Approximate size of a batch of the file in bytes, and its largest number of rows.
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
    """Write a finished store to one Parquet or Arrow IPC file, in batches, and compare every checksum.

    Equal stores give equal bytes. Returns the number of rows.

    Raises
    ------
    InputError
        If the output exists, its folder does not exist, or the output is inside the store.
    MissingResourceError, CorruptResourceError
        If the directory has no finished store, or the store is damaged; no file is written then.
    ResourceError
        If writing to disk fails.
    """
    check_output(output, overwrite=overwrite)
    reader = ArrayStoreReader(directory, check=True, access="sequential")
    check_outside(output, reader.directory)
    names = _column_names(reader)
    schema = _schema(reader, names)
    write_table_file(output, schema, _batches(reader, schema, names, progress), form, overwrite=overwrite)
    return reader.n_rows


def check_outside(output: Path, directory: Path) -> None:
    """Raise :class:`InputError` if an output file is inside a published directory, whose links are resolved."""
    if output.parent.resolve().is_relative_to(directory):
        raise InputError(str(output), "is inside the store that is exported", remedy="Choose another output")


def rows_at_once(row_bytes: int) -> int:
    """Return the number of rows per batch of an exported file, for rows of ``row_bytes`` bytes; at least 1."""
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES // row_bytes))


def by_rows(
    batches: Iterable[pa.RecordBatch], n_rows: int, progress: Progress
) -> Iterator[tuple[int, int, pa.RecordBatch]]:
    """Yield (first, stop, batch) for consecutive batches, rows 0-based half-open, and report the rows used."""
    first = 0
    for batch in batches:
        stop = first + batch.num_rows
        yield first, stop, batch
        first = stop
        progress.advance(first, n_rows, "rows")


def read_index(directory: Path, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a store's ``index.parquet`` in batches, after comparing the file's checksum."""
    with read_checksums(directory).open_index() as file:
        yield from file.iter_batches(batch_rows)


def _column_names(reader: ArrayStoreReader) -> dict[str, dict[str, str]]:
    """Choose the column names of side-cars and arrays; a name already in use gets ``_`` appended."""
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
    # The same array for all batches, because an Arrow file has one dictionary per column.
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
        raise damaged(reader.directory / INDEX, f"has a key that is not in side-car {name!r} ({err})") from err


def tensor_type(spec: ArraySpec) -> pa.DataType:
    """Return the Arrow type of one row of an array: number, fixed-shape tensor, or nested lists of booleans."""
    kind = pa.from_numpy_dtype(np.dtype(spec.dtype))
    if not spec.shape:
        return kind
    if spec.dtype != "bool":
        return pa.fixed_shape_tensor(kind, spec.shape)
    for size in reversed(spec.shape):
        kind = pa.list_(kind, size)
    return kind


def tensor_array(spec: ArraySpec, rows: npt.NDArray[Any]) -> pa.Array:
    """Convert rows, shape (n, *spec.shape), to an Arrow array of :func:`tensor_type`; numbers are not copied."""
    values = pa.array(rows.reshape(-1))
    if not spec.shape:
        return values
    if spec.dtype != "bool":
        storage = pa.FixedSizeListArray.from_arrays(values, spec.row_bytes // spec.disk_dtype.itemsize)
        return pa.ExtensionArray.from_storage(tensor_type(spec), storage)
    for size in reversed(spec.shape):
        values = pa.FixedSizeListArray.from_arrays(values, size)
    return values
