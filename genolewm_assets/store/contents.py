"""What a published artefact holds, for people: columns with their meanings, first rows, first values of arrays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.store.arrays import ArrayStoreReader, is_complete
from genolewm_assets.store.artefacts import FileEntry, Published
from genolewm_assets.store.tables import reading_parquet

#: First values of an array that are read.
_VALUES = 4


class Column(NamedTuple):
    """One column of a table; the meaning is empty if the file states none."""

    name: str
    type: str
    nullable: bool
    meaning: str


@dataclass(frozen=True, slots=True)
class TableContents:
    """Tables of an artefact with the same columns: the rows of all, and the first rows of the first that has any.

    ``name`` is that of the schema in ``docs/data_model.md``; empty if the file states none.
    """

    name: str
    files: Sequence[str]
    rows: int
    columns: Sequence[Column]
    head: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class ArrayContents:
    """Arrays of an artefact with the same name and type: shape and first values of the first."""

    files: Sequence[str]
    shape: tuple[int, ...]
    dtype: str
    first: Sequence[Any]


@dataclass(frozen=True, slots=True)
class Contents:
    """Tables, arrays and other files of a published artefact."""

    tables: Sequence[TableContents]
    arrays: Sequence[ArrayContents]
    others: Sequence[FileEntry]

    def explained(self, meanings: Mapping[str, str]) -> Contents:
        """Return the same contents with the meanings of columns whose files state none."""
        tables = [
            replace(
                table,
                columns=[one._replace(meaning=one.meaning or meanings.get(one.name, "")) for one in table.columns],
            )
            for table in self.tables
        ]
        return replace(self, tables=tables)


def read_contents(published: Published, *, rows: int) -> Contents:
    """Read what a published artefact holds: of each table ``rows`` rows, of each array four values.

    Bytes are not compared with the manifest, but those of an array store with its checksums.

    Raises
    ------
    CorruptResourceError
        If a file cannot be read as what its name says.
    """
    entries = published.manifest.files
    tables: dict[tuple[str, ...], list[FileEntry]] = defaultdict(list)
    for entry in entries:
        if entry.path.endswith(".parquet"):
            path = published.directory / entry.path
            with reading_parquet(path):
                tables[tuple(pq.read_schema(path).names)].append(entry)
    return Contents(
        tables=[_table(published.directory, same, rows) for same in tables.values()],
        arrays=list(_stored(published.directory) if is_complete(published.directory) else _mapped(published)),
        others=[entry for entry in entries if not entry.path.endswith((".parquet", ".npy"))],
    )


def _table(folder: Path, entries: Sequence[FileEntry], rows: int) -> TableContents:
    counts = [entry.rows if entry.rows is not None else _count(folder / entry.path) for entry in entries]
    path = folder / next((entry for entry, count in zip(entries, counts, strict=True) if count), entries[0]).path
    with reading_parquet(path), pq.ParquetFile(path, pre_buffer=False) as file:
        schema = file.schema_arrow
        first = next(file.iter_batches(batch_size=rows), None) if rows else None
    return TableContents(
        name=(schema.metadata or {}).get(b"genolewm.table", b"").decode(errors="replace"),
        files=[entry.path for entry in entries],
        rows=sum(counts),
        columns=[Column(one.name, str(one.type), one.nullable, _meaning(one)) for one in schema],
        head=[] if first is None else first.to_pylist(),
    )


def _count(path: Path) -> int:
    with reading_parquet(path):
        return int(pq.read_metadata(path).num_rows)


def _meaning(field: pa.Field) -> str:
    return str((field.metadata or {}).get(b"description", b""), "utf-8", "replace")


def _stored(folder: Path) -> Iterator[ArrayContents]:
    reader = ArrayStoreReader(folder, check=True)
    for name, spec in reader.arrays.items():
        first = reader.get_slice(0, min(1, reader.n_rows), name)
        yield ArrayContents([name], (reader.n_rows, *spec.shape), str(spec.dtype), _values(first))


def _mapped(published: Published) -> Iterator[ArrayContents]:
    """Yield the ``.npy`` files, those of one name, type and row shape together: a package has the same ones often."""
    same: dict[tuple[object, ...], list[tuple[str, npt.NDArray[Any]]]] = defaultdict(list)
    for entry in published.manifest.files:
        if entry.path.endswith(".npy"):
            array = _map(published.directory / entry.path)
            same[PurePosixPath(entry.path).name, array.dtype, array.shape[1:]].append((entry.path, array))
    for found in same.values():
        array = max((array for _, array in found), key=len)
        path = next(path for path, each in found if each is array)
        others = [other for other, each in found if each is not array]
        yield ArrayContents([path, *others], array.shape, str(array.dtype), _values(array))


def _map(path: Path) -> npt.NDArray[Any]:
    try:
        return np.atleast_1d(np.load(path, mmap_mode="r"))
    except (ValueError, EOFError, OSError) as err:
        problem = f"cannot be read as a NumPy array ({err})"
        raise CorruptResourceError(str(path), problem, remedy="Build it again, or copy it again") from err


def _values(array: npt.NDArray[Any]) -> list[Any]:
    """Return the first values of an array, of which only the first rows are read."""
    values: list[Any] = array[:_VALUES].reshape(-1)[:_VALUES].tolist()
    return [value.decode(errors="backslashreplace") for value in values] if array.dtype.kind == "S" else values
