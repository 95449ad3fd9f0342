"""Read rows of a finished array store: lazily, from any number of processes, checked on the way if asked."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from genolewm_assets.errors import CorruptResourceError, InputError, MissingResourceError, ResourceError
from genolewm_assets.store.array_keys import read_fingerprint
from genolewm_assets.store.array_layout import (
    CHECKSUMS,
    COMPLETE,
    INDEX,
    SHAPES,
    ArraySpec,
    IndexEntry,
    crc32c,
    crc32c_file,
    is_complete,
    layout_from_json,
    read_json,
    sidecar_column,
    sidecar_file,
)
from genolewm_assets.store.array_memory import check_fits_memory
from genolewm_assets.store.manifest import JsonValue
from genolewm_assets.store.progress import NO_PROGRESS, ByteCount, Progress

_REMEDY = "Build the array store again"
_MARKER = re.compile(rb"([0-9a-f]{8}) ([0-9a-f]{8})\n")


class ArrayStoreReader:
    """A finished store. Holds no open file: an array is mapped at first use, in each process anew.

    A pickle holds the directory and no data; what :meth:`load_in_memory` loaded is shared with forked processes and
    not taken along to spawned ones, which read from disk.

    Parameters
    ----------
    directory
        The store, or a published link to it, which is resolved once, here.
    check
        Compare the CRC-32C of each batch of rows before the first row of it is handed out in this process.

    Raises
    ------
    MissingResourceError
        If there is no finished store, or a file of it is gone.
    CorruptResourceError
        If an array is shorter or longer than its rows, or what describes the store was altered.
    """

    def __init__(self, directory: Path, *, check: bool = False) -> None:
        self.directory = Path(directory).resolve()
        self.check = check
        self._checksums = _read_checksums(self.directory)
        shapes = read_json(self.directory / SHAPES, int(self._checksums["files"][SHAPES], 16))
        self.layout = layout_from_json(shapes, str(self.directory / SHAPES))
        self._n_rows = int(shapes["n_rows"])
        self.arrays: dict[str, ArraySpec] = {spec.name: spec for spec in self.layout.arrays}
        for spec in self.layout.arrays:
            _check_size(self.directory / spec.file_name, spec, self._n_rows)
        self._maps: dict[str, npt.NDArray[Any]] = {}
        self._maps_pid = os.getpid()
        self._loaded: dict[str, npt.NDArray[Any]] = {}
        self._intact: dict[str, npt.NDArray[np.bool_]] = {}
        self._index: pa.Table | None = None
        self._sidecars: dict[str, list[str]] = {}

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), check=self.check), (self.directory,)

    def __len__(self) -> int:
        return self._n_rows

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self._n_rows

    @property
    def size_bytes(self) -> int:
        """Bytes of all arrays: what :meth:`load_in_memory` would take."""
        return self._n_rows * sum(spec.row_bytes for spec in self.layout.arrays)

    @property
    def batch_rows(self) -> int:
        """Rows under one checksum."""
        return self.layout.batch_rows

    @property
    def fingerprint(self) -> dict[str, JsonValue]:
        """Configuration and digests of the sources, as ``fingerprint.json`` says."""
        return read_fingerprint(self.directory)

    def get_row(self, row: int) -> dict[str, npt.NDArray[Any]]:
        """Return one row of every array without copying it.

        Parameters
        ----------
        row
            0-based; negative numbers do not count from the end.

        Returns
        -------
        dict of str to ndarray
            Read-only views of the declared dtype and row shape.

        Raises
        ------
        InputError
            If there is no such row.
        CorruptResourceError
            With ``check``: if the batch of the row differs from what was written.
        """
        rows = self._rows([row])
        return {name: self._array(name, rows)[row, ...] for name in self.arrays}

    def get_rows(self, indices: npt.ArrayLike, array: str | None = None) -> npt.NDArray[Any]:
        """Return rows of one array, copied, in the order asked for.

        Parameters
        ----------
        indices
            0-based rows, integers of shape (n,); any order, repetitions allowed, none negative.
        array
            Which array; None for the only one of a store that has one.

        Returns
        -------
        ndarray
            Shape (n, *row shape), the declared dtype, writable.

        Raises
        ------
        InputError
            If there is no such row or array.
        CorruptResourceError
            With ``check``: if a batch read differs from what was written.
        """
        rows = self._rows(indices)
        return self._array(self._name(array), rows).take(rows, axis=0)

    def keys(self) -> list[str]:
        """Return the key of every row, in order."""
        keys: list[str] = self.index.column(self.layout.key_column).to_pylist()
        return keys

    @property
    def index(self) -> pa.Table:
        """Table ``index.parquet``, read once: row, key, the caller's columns, side-car keys, ``meta_json``."""
        if self._index is None:
            self._check_file(INDEX)
            # Not pq.read_table: that takes `key=value` folders on the way to the file for partition columns.
            self._index = pq.ParquetFile(self.directory / INDEX).read()
        return self._index

    def load_index(self) -> list[IndexEntry]:
        """Return the index in the terms of the cache specification."""
        table, rows = self.index, range(self._n_rows)
        names = set(table.column_names)

        def values(column: str, default: object) -> Sequence[Any]:
            return table.column(column).to_pylist() if column in names else [default] * self._n_rows

        annotated, panel, allele = (
            values("has_annotation", True),
            values(sidecar_column("panel"), None),
            values(sidecar_column("allele"), None),
        )
        columns = (rows, self.keys(), annotated, panel, allele, values("meta_json", "{}"))
        return [IndexEntry(*entry) for entry in zip(*columns, strict=True)]

    def sidecar(self, name: str, key: int) -> str:
        """Return the JSON text that a side-car key stands for.

        Raises
        ------
        InputError
            If there is no such side-car or key.
        """
        texts = self.sidecar_texts(name)
        if not 0 <= key < len(texts):
            where = str(self.directory / sidecar_file(name))
            raise InputError(where, "no such key", expected=_numbers(len(texts)), got=str(key))
        return texts[key]

    def sidecar_texts(self, name: str) -> list[str]:
        """Return the JSON texts of a side-car by key, read once.

        Raises
        ------
        InputError
            If there is no such side-car.
        """
        if name not in self.layout.sidecars:
            raise self._unknown("side-car", self.layout.sidecars, name)
        if name not in self._sidecars:
            file = sidecar_file(name)
            by_key = read_json(self.directory / file, int(self._checksums["files"][file], 16))
            self._sidecars[name] = [by_key[str(key)] for key in range(len(by_key))]
        return self._sidecars[name]

    def load_in_memory(self, *, max_fraction: float = 0.5) -> None:
        """Copy every array into memory, once for all processes forked later.

        Parameters
        ----------
        max_fraction
            Share of the memory this process may use, limits of control groups included, that the arrays may take.

        Raises
        ------
        MemoryLimitError
            A :class:`RuntimeError`: if they would take more; its text names both figures.
        """
        check_fits_memory(self.size_bytes, max_fraction, str(self.directory))
        everything = np.arange(self._n_rows)
        for name in self.arrays:
            copied = np.array(self._array(name, everything))
            copied.flags.writeable = False
            self._loaded[name] = copied

    def verify(self, progress: Progress = NO_PROGRESS) -> list[str]:
        """Read everything from disk and say what differs from what was written.

        Returns
        -------
        list of str
            One line per file, or per batch of rows, that differs; empty for an intact store.
        """
        problems = []
        for file, text in sorted(self._checksums["files"].items()):
            try:
                self._check_file(file)
            except (MissingResourceError, CorruptResourceError) as err:
                problems.append(f"{file}: {err.problem}: expected crc32c {text}, got {err.got or 'nothing'}")
        count = ByteCount(progress, self.size_bytes)
        for spec in self.layout.arrays:
            problems += [f"{spec.file_name}: {problem}" for problem in self._array_problems(spec, count)]
        return problems

    def _array_problems(self, spec: ArraySpec, count: ByteCount) -> Iterator[str]:
        # Not through the mapping, by which a failing disk would end the process.
        try:
            with (self.directory / spec.file_name).open("rb") as handle:
                for batch in range(self.layout.n_batches(self._n_rows)):
                    first, stop = self._bounds(batch)
                    data = handle.read((stop - first) * spec.row_bytes)
                    count.add(len(data))
                    if problem := self._batch_problem(spec.name, batch, data):
                        yield problem
        except OSError as err:
            yield f"cannot be read ({err.strerror})"

    def _bounds(self, batch: int) -> tuple[int, int]:
        return batch * self.batch_rows, min((batch + 1) * self.batch_rows, self._n_rows)

    def _batch_problem(self, name: str, batch: int, data: bytes | npt.NDArray[Any]) -> str | None:
        found, wanted = f"{crc32c(data):08x}", self._checksums["arrays"][name][batch]
        if found == wanted:
            return None
        first, stop = self._bounds(batch)
        return f"rows {first} to {stop - 1} differ from what was written: expected crc32c {wanted}, got crc32c {found}"

    def _check_file(self, file: str) -> None:
        path, wanted = self.directory / file, self._checksums["files"][file]
        try:
            found = f"{crc32c_file(path):08x}"
        except OSError as err:
            raise MissingResourceError(str(path), f"cannot be read ({err.strerror})", remedy=_REMEDY) from err
        if found != wanted:
            raise CorruptResourceError(
                str(path), "content differs", expected=f"crc32c {wanted}", got=f"crc32c {found}", remedy=_REMEDY
            )

    def _rows(self, indices: npt.ArrayLike) -> npt.NDArray[np.integer[Any]]:
        rows = np.asarray(indices)
        if rows.size == 0:
            return np.zeros(0, dtype=np.int64)
        if rows.ndim != 1 or rows.dtype.kind not in "iu":
            got = f"{rows.dtype} of shape {rows.shape}"
            raise InputError(str(self.directory), "row numbers", expected="integers of shape (n,)", got=got)
        if rows.min() < 0 or rows.max() >= self._n_rows:
            wrong = int(rows[(rows < 0) | (rows >= self._n_rows)][0])
            raise InputError(str(self.directory), "no such row", expected=_numbers(self._n_rows), got=str(wrong))
        return rows

    def _name(self, array: str | None) -> str:
        name = next(iter(self.arrays)) if array is None and len(self.arrays) == 1 else array
        if name is None or name not in self.arrays:
            raise self._unknown("array", self.arrays, name)
        return name

    def _unknown(self, what: str, known: Mapping[str, object] | Sequence[str], name: str | None) -> InputError:
        return InputError(str(self.directory), f"no such {what}", expected=f"one of {list(known)}", got=repr(name))

    def _array(self, name: str, rows: npt.NDArray[np.integer[Any]]) -> npt.NDArray[Any]:
        """Return an array whose ``rows`` may be handed out."""
        if name in self._loaded:
            return self._loaded[name]
        if self.check:
            self._check_batches(name, np.unique(rows // self.batch_rows))
        return self._mapped(name)

    def _check_batches(self, name: str, batches: npt.NDArray[np.integer[Any]]) -> None:
        mapped = self._mapped(name)
        intact = self._intact.setdefault(name, np.zeros(self.layout.n_batches(self._n_rows), dtype=np.bool_))
        for batch in batches[~intact[batches]]:
            first, stop = self._bounds(int(batch))
            if problem := self._batch_problem(name, int(batch), mapped[first:stop]):
                raise CorruptResourceError(str(self.directory / self.arrays[name].file_name), problem, remedy=_REMEDY)
            intact[batch] = True

    def _mapped(self, name: str) -> npt.NDArray[Any]:
        if self._maps_pid != os.getpid():
            self._maps, self._maps_pid = {}, os.getpid()
        if name not in self._maps:
            spec = self.arrays[name]
            path, shape = self.directory / spec.file_name, (self._n_rows, *spec.shape)
            # Again, because what is read behind the end of a mapped file ends the process with SIGBUS.
            _check_size(path, spec, self._n_rows)
            mapped = np.memmap(path, spec.disk_dtype, "r", shape=shape) if self._n_rows else np.empty(shape, spec.dtype)
            # The base class: a memmap's own slicing is several times slower.
            self._maps[name] = mapped.view(np.ndarray)
        return self._maps[name]


def verify_array_store(directory: Path, *, progress: Progress = NO_PROGRESS) -> list[str]:
    """Read a finished store from disk and say what is wrong with it, also where it cannot even be opened.

    Returns
    -------
    list of str
        As :meth:`ArrayStoreReader.verify`.
    """
    try:
        return ArrayStoreReader(directory).verify(progress)
    except ResourceError as err:
        return [str(err)]


def _read_checksums(directory: Path) -> dict[str, Any]:
    if not is_complete(directory):
        raise MissingResourceError(
            str(directory), "holds no finished array store", expected=f"a file {COMPLETE!r}", remedy=_REMEDY
        )
    text = (directory / COMPLETE).read_bytes()
    match = _MARKER.fullmatch(text)
    if match is None or int(match[1], 16) ^ int(match[2], 16) != 0xFFFFFFFF:
        raise CorruptResourceError(
            str(directory / COMPLETE),
            "content differs",
            expected="a checksum and its complement",
            got=repr(text),
            remedy=_REMEDY,
        )
    checksums: dict[str, Any] = read_json(directory / CHECKSUMS, int(match[1], 16))
    return checksums


def _numbers(count: int) -> str:
    return f"0 to {count - 1}" if count else "none, for there are none"


def _check_size(path: Path, spec: ArraySpec, n_rows: int) -> None:
    try:
        found = path.stat().st_size
    except OSError as err:
        raise MissingResourceError(str(path), f"cannot be read ({err.strerror})", remedy=_REMEDY) from err
    wanted = n_rows * spec.row_bytes
    if found != wanted:
        cut = f"; rows from {found // spec.row_bytes} on are missing" if found < wanted else ""
        raise CorruptResourceError(
            str(path),
            f"size differs{cut}",
            expected=f"{wanted} bytes ({n_rows} rows)",
            got=f"{found} bytes",
            remedy=_REMEDY,
        )
