"""Read rows of a finished array store: lazily, from any number of processes, checked on the way if asked."""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from genolewm_assets.errors import CorruptResourceError, InputError, ResourceError
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.store.arrays.checksums import (
    BUILD_AGAIN,
    find_differences,
    read_checksums,
    sidecar_texts_from_json,
)
from genolewm_assets.store.arrays.keys import FINGERPRINT, read_fingerprint
from genolewm_assets.store.arrays.layout import (
    ArraySpec,
    IndexEntry,
    read_json,
    sidecar_column,
    sidecar_file,
)
from genolewm_assets.store.arrays.memory import check_fits_memory
from genolewm_assets.store.files import JsonValue

#: How rows will be read: what the operating system should read ahead (madvise(2)).
Access: TypeAlias = Literal["normal", "sequential", "random"]

_ADVICE: Mapping[Access, int] = {
    "normal": mmap.MADV_NORMAL,
    "sequential": mmap.MADV_SEQUENTIAL,
    "random": mmap.MADV_RANDOM,
}


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
    access
        How rows will be read: ``random`` keeps the disk from reading neighbours that nobody asked for, ``sequential``
        has it read far ahead.

    Raises
    ------
    MissingResourceError
        If there is no finished store, or a file of it is gone.
    CorruptResourceError
        If an array is shorter or longer than its rows, or what describes the store was altered.
    """

    def __init__(self, directory: Path, *, check: bool = False, access: Access = "normal") -> None:
        self.directory = Path(directory).resolve()
        self.check = check
        self.access = access
        self._checksums = read_checksums(self.directory)
        self.layout, self._n_rows = self._checksums.layout, self._checksums.n_rows
        self.arrays: dict[str, ArraySpec] = {spec.name: spec for spec in self.layout.arrays}
        for name in self.arrays:
            self._checksums.open_array(name).close()
        self._maps: dict[str, npt.NDArray[Any]] = {}
        self._maps_pid = os.getpid()
        self._loaded: dict[str, npt.NDArray[Any]] = {}
        self._intact: dict[str, npt.NDArray[np.bool_]] = {}
        self._index: pa.Table | None = None
        self._sidecars: dict[str, list[str]] = {}

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), check=self.check, access=self.access), (self.directory,)

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
        self._checksums.check_file(FINGERPRINT)
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
        arrays = self._opened()
        if not (isinstance(row, int | np.integer) and 0 <= row < self._n_rows):
            self._rows([row])  # says what is wrong with it
        if self.check and not self._loaded:
            for name in self.arrays:
                self._check_batches(name, np.array([row // self.batch_rows]))
        return {name: array[row, ...] for name, array in arrays.items()}

    def get_slice(self, start: int, stop: int, array: str | None = None) -> npt.NDArray[Any]:
        """Return neighbouring rows of one array without copying them.

        Parameters
        ----------
        start, stop
            0-based and half-open, within the store.
        array
            As in :meth:`get_rows`.

        Returns
        -------
        ndarray
            Read-only view, shape (stop - start, *row shape), the declared dtype.

        Raises
        ------
        InputError, CorruptResourceError
            As :meth:`get_rows`.
        """
        name = self._name(array)
        if not 0 <= start <= stop <= self._n_rows:
            expected = f"0 <= start <= stop <= {self._n_rows}"
            raise InputError(str(self.directory), "no such rows", expected=expected, got=f"{start} to {stop}")
        return self._array(name, np.arange(start, stop))[start:stop]

    def get_rows(
        self, indices: npt.ArrayLike, array: str | None = None, *, out: npt.NDArray[Any] | None = None
    ) -> npt.NDArray[Any]:
        """Return rows of one array, copied, in the order asked for.

        Parameters
        ----------
        indices
            0-based rows, integers of shape (n,); any order, repetitions allowed, none negative.
        array
            Which array; None for the only one of a store that has one.
        out
            Where to put them, shape (n, *row shape) and the declared dtype; a buffer that is used again takes half the
            time of new memory. None: a new array.

        Returns
        -------
        ndarray
            Shape (n, *row shape), the declared dtype, writable; ``out`` where it was given.

        Raises
        ------
        InputError
            If there is no such row or array, or ``out`` does not fit.
        CorruptResourceError
            With ``check``: if a batch read differs from what was written.
        """
        name, rows = self._name(array), self._rows(indices)
        rows_of = self._array(name, rows)
        if out is None:
            return rows_of.take(rows, axis=0)
        wanted = ((len(rows), *rows_of.shape[1:]), rows_of.dtype)
        if (out.shape, out.dtype) != wanted:
            raise InputError(
                str(self.directory), "rows do not fit `out`", expected=str(wanted), got=str((out.shape, out.dtype))
            )
        # None is clipped, all were compared; the default would gather into a buffer of its own first.
        return rows_of.take(rows, axis=0, out=out, mode="clip")

    def keys(self) -> list[str]:
        """Return the key of every row, in order."""
        keys: list[str] = self.index.column(self.layout.key_column).to_pylist()
        return keys

    @property
    def index(self) -> pa.Table:
        """Table ``index.parquet``, read once: row, key, the caller's columns, side-car keys, ``meta_json``."""
        if self._index is None:
            self._index = self._checksums.read_index()
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
            by_key = read_json(self.directory / file, self._checksums.files[file])
            self._sidecars[name] = sidecar_texts_from_json(by_key, str(self.directory / file))
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
        loaded = {name: np.array(self.get_slice(0, self._n_rows, name)) for name in self.arrays}
        for array in loaded.values():
            array.flags.writeable = False
        self._loaded, self._maps = loaded, {}

    def verify(self, progress: Progress = NO_PROGRESS) -> list[str]:
        """Read everything from disk and say what differs from what was written.

        Returns
        -------
        list of str
            One line per file, or per batch of rows, that differs; empty for an intact store.
        """
        return list(find_differences(self._checksums, progress))

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
        array = self._opened()[name]
        if self.check and not self._loaded:
            self._check_batches(name, np.unique(rows // self.batch_rows))
        return array

    def _check_batches(self, name: str, batches: npt.NDArray[np.integer[Any]]) -> None:
        array = self._opened()[name]
        intact = self._intact.setdefault(name, np.zeros(self.layout.n_batches(self._n_rows), dtype=np.bool_))
        for batch in batches[~intact[batches]]:
            first, stop = self._checksums.rows_of(int(batch))
            if problem := self._checksums.batch_problem(name, int(batch), array[first:stop]):
                path = self.directory / self.arrays[name].file_name
                raise CorruptResourceError(str(path), problem, remedy=BUILD_AGAIN)
            intact[batch] = True

    def _opened(self) -> dict[str, npt.NDArray[Any]]:
        """Return every array: what was loaded, or else a mapping of this process's own."""
        if self._loaded:
            return self._loaded
        if not self._maps or self._maps_pid != os.getpid():
            self._maps = {spec.name: self._map(spec) for spec in self.layout.arrays}
            self._maps_pid = os.getpid()
        return self._maps

    def _map(self, spec: ArraySpec) -> npt.NDArray[Any]:
        shape = (self._n_rows, *spec.shape)
        # Its size again, because what is read behind the end of a mapped file ends the process with SIGBUS.
        with self._checksums.open_array(spec.name) as handle:
            if not self._n_rows:
                return np.empty(shape, spec.dtype)
            # Not numpy.memmap, whose slicing takes ten times as long as that of the base class.
            mapped = mmap.mmap(handle.fileno(), 0, prot=mmap.PROT_READ)
        mapped.madvise(_ADVICE[self.access])
        return np.frombuffer(mapped, spec.disk_dtype).reshape(shape)


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


def _numbers(count: int) -> str:
    return f"0 to {count - 1}" if count else "none, for there are none"
