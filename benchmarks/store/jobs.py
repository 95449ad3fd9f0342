"""Tasks on the array store, and the same work on plain files or ``numpy.memmap`` for comparison.

``python -m benchmarks.store.jobs PART STORE OUT``; the parts are ``read``, ``write``, ``verify``, ``open`` and
``resume``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.stopwatch import serve_tasks
from benchmarks.store.array_stores import ARRAY, counted_syncs, finish, open_writer, row_keys
from benchmarks.store.random_rows import BATCH_ROWS, ROW_VALUES, Way, open_rows, read_tasks
from genolewm_assets.store import ArrayStoreReader

MEMMAP, OURS, OURS_CHECKED = "numpy.memmap", "genolewm_assets", "genolewm_assets, check=True"
#: Ways to read, by store.
READS: Mapping[str, tuple[str, ...]] = {
    MEMMAP: ("[indices]", "take", "take(out=)"),
    OURS: ("get_row, get_rows", "get_row, get_rows(out=)"),
    OURS_CHECKED: ("get_row, get_rows", "get_row, get_rows(out=)"),
}
#: Ways to write: name -> options of the writer, rows per call, and whether the store is finished.
WRITES: Mapping[str, tuple[Mapping[str, int], int, bool]] = {
    "default commits": ({}, 256, False),
    "default commits, one row a call": ({}, 1, False),
    "default commits, finished": ({}, 256, True),
    "commits of 1,024 rows": ({"commit_rows": 1_024}, 256, False),
    "commits of 64 rows": ({"commit_rows": 64}, 256, False),
}
PLAIN = "plain"
_BLOCK_BYTES = 1 << 23


def data_file(store: Path) -> Path:
    """Return the file with the rows of a store's array."""
    return store / f"{ARRAY}.bin"


def _read_tasks(store: Path, _: Path) -> dict[str, Callable[[], int]]:
    # numpy.memmap maps the file of the store itself, so that both read the same memory pages.
    mapped = open_rows(data_file(store))
    out = np.empty((BATCH_ROWS, *mapped.shape[1:]), mapped.dtype)
    ways = {
        f"{MEMMAP}/[indices]": Way(lambda row: mapped[row], lambda wanted: mapped[wanted]),
        f"{MEMMAP}/take": Way(lambda row: mapped[row], lambda wanted: mapped.take(wanted, axis=0)),
        f"{MEMMAP}/take(out=)": Way(
            lambda row: mapped[row], lambda wanted: mapped.take(wanted, axis=0, out=out[: len(wanted)], mode="clip")
        ),
    }
    for name in (OURS, OURS_CHECKED):
        reader = ArrayStoreReader(store, check=name == OURS_CHECKED)
        for way, buffer in zip(READS[name], (None, out), strict=True):
            ways[f"{name}/{way}"] = _way(reader, buffer)
    return read_tasks(ways, mapped)


def _way(reader: ArrayStoreReader, out: npt.NDArray[Any] | None) -> Way:
    get_row = reader.get_row
    return Way(
        lambda row: get_row(row)[ARRAY],
        lambda wanted: reader.get_rows(wanted, out=None if out is None else out[: len(wanted)]),
    )


def write_tasks(store: Path, out: Path) -> dict[str, Callable[[], int]]:
    """Return the tasks that write a store or a plain file; each returns its number of syncs.

    For every way to write a store, a plain task writes the same bytes with as many syncs.
    """
    rows = np.array(open_rows(data_file(store)))
    keys = row_keys(len(rows))
    tasks: dict[str, Callable[[], int]] = {PLAIN: partial(_write_plain, rows, out, 1)}
    for name in WRITES:
        with counted_syncs() as counts:
            _write_store(name, rows, keys, out / name)
        syncs = sum(counts.values())
        tasks[name] = partial(_write_store, name, rows, keys, out, syncs)
        tasks[f"{PLAIN}/{name}"] = partial(_write_plain, rows, out, syncs)
    return tasks


def _write_store(name: str, rows: npt.NDArray[np.float16], keys: list[str], out: Path, syncs: int = 0) -> int:
    options, at_once, finished = WRITES[name]
    with open_writer(out, ROW_VALUES, **options) as writer:
        for first in range(0, len(rows), at_once):
            part = slice(first, first + at_once)
            writer.write_batch({ARRAY: rows[part]}, keys=keys[part])
        if finished:
            finish(writer)
    return syncs


def _write_plain(rows: npt.NDArray[np.float16], out: Path, syncs: int) -> int:
    """Write one file in ``syncs`` parts, each in blocks of up to 8 MiB and followed by a sync."""
    out.mkdir()
    part_rows = -(-len(rows) // syncs)
    block_rows = min(part_rows, _BLOCK_BYTES // rows[0].nbytes)
    with (out / "plain").open("wb", buffering=0) as file:
        for start in range(0, len(rows), part_rows):
            for first in range(start, min(start + part_rows, len(rows)), block_rows):
                file.write(rows[first : min(first + block_rows, start + part_rows)].data)
            os.fsync(file.fileno())
    return syncs


def _verify_tasks(store: Path, _: Path) -> dict[str, Callable[[], int]]:
    reader, block = ArrayStoreReader(store), bytearray(_BLOCK_BYTES)

    def read() -> int:
        with data_file(store).open("rb", buffering=0) as file:
            while file.readinto(block):
                continue
        return reader.size_bytes

    def verify() -> int:
        if found := reader.verify():
            raise AssertionError(found[0])
        return reader.size_bytes

    return {"read": read, "verify": verify}


def _open_tasks(store: Path, _: Path) -> dict[str, Callable[[], int]]:
    opened = []

    def first_row() -> int:
        opened.append(reader := ArrayStoreReader(store))
        reader.get_row(len(reader) - 1)
        return len(reader)

    def keys() -> int:
        opened.append(reader := ArrayStoreReader(store))
        return len(reader.keys())

    return {"row": first_row, "keys": keys}


def _resume_tasks(store: Path, _: Path) -> dict[str, Callable[[], int]]:
    row_values = int(store.parent.name)

    def resume() -> int:
        with open_writer(store, row_values) as writer:
            return writer.n_rows

    return {"resume": resume}


_PARTS: Mapping[str, Callable[[Path, Path], dict[str, Callable[[], int]]]] = {
    "read": _read_tasks,
    "write": write_tasks,
    "verify": _verify_tasks,
    "open": _open_tasks,
    "resume": _resume_tasks,
}


def main() -> None:
    part, store, out = sys.argv[1:]
    tasks = _PARTS[part](Path(store), Path(out))
    serve_tasks(tasks, version=metadata.version("genolewm-assets"), out=Path(out))


if __name__ == "__main__":
    main()
