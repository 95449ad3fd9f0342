"""Comparable stores, each in its own process: ``python -m benchmarks.store.peers PEER ROWS FOLDER``.

The process writes the peer's files from a file of rows, then reads random rows from them in every way that may be the
peer's fastest. It imports only NumPy and Arrow besides the peer, because the peers' environment has nothing else.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.stopwatch import serve_tasks
from benchmarks.store.random_rows import ROW_VALUES, Way, open_rows, read_tasks

Rows = npt.NDArray[np.float16]
_ROW_BYTES = ROW_VALUES * 2
_MAP_BYTES = 1 << 32
#: Rows per row group of the Parquet files to try.
_GROUP_ROWS = (64, 256, 1_024)
_LANCE_FORMATS = ("stable", "2.2")


def _joined(parts: Iterator[bytes] | list[bytes]) -> Rows:
    return np.frombuffer(b"".join(parts), np.float16).reshape(-1, ROW_VALUES)


def _lmdb(rows: Rows, folder: Path) -> dict[str, Way]:
    import lmdb

    keys = [row.to_bytes(8, "big") for row in range(len(rows))]
    with lmdb.open(str(folder), map_size=_MAP_BYTES, sync=False) as made, made.begin(write=True) as writing:
        for key, row in zip(keys, rows, strict=True):
            writing.put(key, row.tobytes(), append=True)
    # One read transaction for all reads, without copies, lock or read-ahead.
    reading = lmdb.open(str(folder), map_size=_MAP_BYTES, readonly=True, lock=False, readahead=False).begin(
        buffers=True
    )
    get, cursor = reading.get, reading.cursor()

    def get_row(row: int) -> Rows:
        return np.frombuffer(get(keys[row]), np.float16)

    def get_each(wanted: npt.NDArray[np.int64]) -> Rows:
        return _joined([get(keys[row]) for row in wanted.tolist()])

    def get_multi(wanted: npt.NDArray[np.int64]) -> Rows:
        return _joined([value for _, value in cursor.getmulti([keys[row] for row in wanted.tolist()])])

    return {"get": Way(get_row, get_each), "getmulti": Way(get_row, get_multi)}


def _sqlite(rows: Rows, folder: Path) -> dict[str, Way]:
    path = folder / "rows.db"
    with sqlite3.connect(path) as made:
        # Pages of several rows, read through a memory map, are a third faster than SQLite's defaults.
        made.execute("PRAGMA page_size = 16384")
        made.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, data BLOB)")
        made.executemany("INSERT INTO rows VALUES (?, ?)", ((n, row.tobytes()) for n, row in enumerate(rows)))
    made.close()
    reading = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    reading.execute(f"PRAGMA mmap_size = {_MAP_BYTES}")
    run = reading.execute
    one = "SELECT data FROM rows WHERE id = ?"
    joined = "SELECT data FROM json_each(?) AS wanted CROSS JOIN rows ON rows.id = wanted.value"

    def get_row(row: int) -> Rows:
        return np.frombuffer(run(one, (row,)).fetchone()[0], np.float16)

    def get_in(wanted: npt.NDArray[np.int64]) -> Rows:
        ids = wanted.tolist()
        found = dict(run(f"SELECT id, data FROM rows WHERE id IN ({','.join('?' * len(ids))})", ids))
        return _joined([found[row] for row in ids])

    def get_joined(wanted: npt.NDArray[np.int64]) -> Rows:
        return _joined([data for (data,) in run(joined, (str(wanted.tolist()),))])

    return {"IN": Way(get_row, get_in), "join with json_each": Way(get_row, get_joined)}


def _arrow(rows: Rows, folder: Path) -> dict[str, Way]:
    import pyarrow as pa

    path = folder / "rows.arrow"
    table = _table(rows)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=len(rows))
    column = pa.ipc.open_file(pa.memory_map(str(path))).read_all().column(0).chunk(0)
    mapped = _values(column)

    def take(wanted: npt.NDArray[np.int64]) -> Rows:
        return _values(column.take(pa.array(wanted)))

    by_numpy = Way(mapped.__getitem__, mapped.__getitem__)
    return {
        "column as an ndarray, [indices]": by_numpy,
        "column as an ndarray, take": Way(mapped.__getitem__, lambda wanted: mapped.take(wanted, axis=0)),
        "Array.take": Way(lambda row: column[row].values.to_numpy(), take),
    }


def _parquet(rows: Rows, folder: Path) -> dict[str, Way]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    # A row stored as one binary value reads ten times as fast as a row stored as a list of numbers.
    packed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(_ROW_BYTES), len(rows), [None, pa.py_buffer(rows)])
    table = pa.table({"data": packed})

    def way(group_rows: int) -> Way:
        path = folder / f"{group_rows}.parquet"
        pq.write_table(table, path, row_group_size=group_rows, compression="none", use_dictionary=False)
        file = pq.ParquetFile(path, memory_map=True)

        def values(read: pa.Table) -> Rows:
            data = _one_chunk(read)
            return np.frombuffer(data.buffers()[1], np.float16).reshape(-1, ROW_VALUES)

        def get_row(row: int) -> Rows:
            group, within = divmod(row, group_rows)
            found: Rows = values(file.read_row_group(group, use_threads=False))[within]
            return found

        def get_rows(wanted: npt.NDArray[np.int64]) -> Rows:
            groups, position = np.unique(wanted // group_rows, return_inverse=True)
            found: Rows = values(file.read_row_groups(groups.tolist()))[position * group_rows + wanted % group_rows]
            return found

        return Way(get_row, get_rows)

    return {f"row groups of {group_rows:,}": way(group_rows) for group_rows in _GROUP_ROWS}


def _lance(rows: Rows, folder: Path) -> dict[str, Way]:
    import lance

    def way(version: str) -> Way:
        # A table, because lance.write_dataset would copy an array; the written data are the same.
        data = lance.write_dataset(_table(rows), str(folder / version), data_storage_version=version)

        def get_rows(wanted: npt.NDArray[np.int64] | list[int]) -> Rows:
            return _values(_one_chunk(data.take(wanted)))

        return Way(lambda row: get_rows([row])[0], get_rows)

    return {f"take, format {version}": way(version) for version in _LANCE_FORMATS}


def _table(rows: Rows) -> Any:
    import pyarrow as pa

    return pa.table({"data": pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), ROW_VALUES)})


def _one_chunk(table: Any) -> Any:
    column = table.column(0)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _values(column: Any) -> Rows:
    rows: Rows = column.flatten().to_numpy().reshape(-1, ROW_VALUES)
    return rows


STORES: Mapping[str, Callable[[Rows, Path], dict[str, Way]]] = {
    "LMDB": _lmdb,
    "Lance": _lance,
    "SQLite": _sqlite,
    "Parquet": _parquet,
    "Arrow IPC, mapped": _arrow,
}
#: Ways to read each store.
WAYS: Mapping[str, tuple[str, ...]] = {
    "LMDB": ("get", "getmulti"),
    "Lance": tuple(f"take, format {version}" for version in _LANCE_FORMATS),
    "SQLite": ("IN", "join with json_each"),
    "Parquet": tuple(f"row groups of {group_rows:,}" for group_rows in _GROUP_ROWS),
    "Arrow IPC, mapped": ("column as an ndarray, [indices]", "column as an ndarray, take", "Array.take"),
}
#: Stores that the project's own environment contains.
INSTALLED = ("SQLite", "Parquet", "Arrow IPC, mapped")
_PACKAGES = {"LMDB": "lmdb", "Lance": "pylance", "Parquet": "pyarrow", "Arrow IPC, mapped": "pyarrow"}


def main() -> None:
    name, path, folder = sys.argv[1:]
    Path(folder).mkdir(parents=True)
    rows = open_rows(Path(path))
    tasks = read_tasks(STORES[name](np.asarray(rows), Path(folder)), rows)
    serve_tasks(tasks, version=metadata.version(_PACKAGES[name]) if name in _PACKAGES else sqlite3.sqlite_version)


if __name__ == "__main__":
    main()
