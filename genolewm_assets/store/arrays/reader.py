"""Read rows of a finished array store: on demand, from any number of processes, optionally with checksums."""

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

from genolewm_assets.errors import InputError
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.store.arrays.checksums import find_differences, read_checksums, sidecar_texts_from_json
from genolewm_assets.store.arrays.keys import FINGERPRINT, damaged, read_fingerprint
from genolewm_assets.store.arrays.layout import ArraySpec, IndexEntry, read_json, sidecar_column, sidecar_file
from genolewm_assets.store.arrays.memory import check_fits_memory
from genolewm_assets.store.files import JsonValue

#: Expected order of reads, which decides how far the operating system reads ahead (madvise(2)).
Access: TypeAlias = Literal["normal", "sequential", "random"]

_ADVICE: Mapping[Access, int] = {
    "normal": mmap.MADV_NORMAL, "sequential": mmap.MADV_SEQUENTIAL, "random": mmap.MADV_RANDOM,
}  # fmt: skip


class ArrayStoreReader:
    """Reader of a finished array store.

    The reader keeps no file open: each process maps the arrays when it reads its first row. A pickled reader holds the
    directory and the options only. Arrays loaded by :meth:`load_in_memory` are shared with forked processes; spawned
    processes read from disk.

    Parameters
    ----------
    directory
        The store, or a published link to it. The link is resolved once, here.
    check
        Compare the CRC-32C of a batch of rows before its first row is returned in this process.
    access
        Expected order of reads: ``random`` disables reading ahead, ``sequential`` extends it.

    Raises
    ------
    MissingResourceError
        If the directory has no finished store, or a file of the store is missing.
    CorruptResourceError
        If the size of an array differs from its rows, or a file that describes the store was altered.
    """

    def __init__(self, directory: Path, *, check: bool = False, access: Access = "normal") -> None:
        self.directory = Path(directory).resolve()
        self.check, self.access = check, access
        self._checksums = read_checksums(self.directory)
        self.layout = self._checksums.layout
        #: Number of committed rows.
        self.n_rows = self._checksums.n_rows
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
        return self.n_rows

    @property
    def size_bytes(self) -> int:
        """Size of all arrays in bytes, which is the memory that :meth:`load_in_memory` takes."""
        return self.n_rows * sum(spec.row_bytes for spec in self.layout.arrays)

    @property
    def batch_rows(self) -> int:
        """Number of rows per checksum."""
        return self.layout.batch_rows

    @property
    def fingerprint(self) -> dict[str, JsonValue]:
        """Content of ``fingerprint.json``: configuration and digests of the sources; its checksum is compared."""
        self._checksums.check_file(FINGERPRINT)
        return read_fingerprint(self.directory)

    def get_row(self, row: int) -> dict[str, npt.NDArray[Any]]:
        """Return one row of every array without copying it.

        Returns
        -------
        dict of str to ndarray
            Read-only view of the row by array name, with the declared dtype and row shape.

        Raises
        ------
        InputError
            If the row does not exist.
        CorruptResourceError
            With ``check``: if the row's batch differs from its checksum.
        """
        arrays = self._opened()
        if not (isinstance(row, int | np.integer) and 0 <= row < self.n_rows):
            self._rows([row])  # raises the error
        if self.check and not self._loaded:
            for name in self.arrays:
                self._check_batches(name, np.array([row // self.batch_rows]))
        return {name: array[row, ...] for name, array in arrays.items()}

    def get_slice(self, start: int, stop: int, array: str | None = None) -> npt.NDArray[Any]:
        """Return consecutive rows of one array, 0-based half-open, as a read-only view: shape (n_rows, ...).

        Parameters
        ----------
        array
            Name of the array; None if the store has only one.

        Raises
        ------
        InputError, CorruptResourceError
            As :meth:`get_rows`.
        """
        name = self._name(array)
        if not 0 <= start <= stop <= self.n_rows:
            expected = f"0 <= start <= stop <= {self.n_rows}"
            raise InputError(str(self.directory), "no such rows", expected=expected, got=f"{start} to {stop}")
        return self._array(name, batches=np.arange(start // self.batch_rows, -(-stop // self.batch_rows)))[start:stop]

    def get_rows(
        self, indices: npt.ArrayLike, array: str | None = None, *, out: npt.NDArray[Any] | None = None
    ) -> npt.NDArray[Any]:
        """Return copies of rows of one array, in the order of the indices: declared dtype, shape (n, ...).

        Parameters
        ----------
        indices
            0-based row numbers, integers of shape (n,), in any order; repetitions are allowed, negative numbers are
            an error.
        array
            Name of the array; None if the store has only one.
        out
            Array for the result, which takes half the time of a new one.

        Raises
        ------
        InputError
            If a row or the array does not exist, or ``out`` has another shape or dtype.
        CorruptResourceError
            With ``check``: if a batch differs from its checksum.
        """
        name, rows = self._name(array), self._rows(indices)
        rows_of = self._array(name, batches=self._batches(rows))
        if out is None:
            return rows_of.take(rows, axis=0)
        wanted = ((len(rows), *rows_of.shape[1:]), rows_of.dtype)
        if (out.shape, out.dtype) != wanted:
            raise InputError(
                str(self.directory), "rows do not fit `out`", expected=str(wanted), got=str((out.shape, out.dtype))
            )
        # All rows are in range, so mode="clip" clips none; the default mode would copy through a buffer.
        return rows_of.take(rows, axis=0, out=out, mode="clip")

    def checked(self, indices: npt.ArrayLike, array: str | None = None) -> npt.NDArray[Any]:
        """Return a whole array, not copied; only the rows given, whose checksums are compared, may be read."""
        name, rows = self._name(array), self._rows(indices)
        return self._array(name, batches=self._batches(rows))

    def keys(self) -> list[str]:
        """Return the key of every row, in order."""
        return list(self.index.column(self.layout.key_column).to_pylist())

    @property
    def index(self) -> pa.Table:
        """Table of ``index.parquet``, read once: row, key, the caller's columns, side-car keys, ``meta_json``.

        Raises :class:`MemoryLimitError` if it would take more than half of the memory that this process may use.
        """
        if self._index is None:
            self._index = self._checksums.read_index()
        return self._index

    def load_index(self) -> list[IndexEntry]:
        """Return one :class:`IndexEntry` per row, in order."""
        table, rows = self.index, range(self.n_rows)
        names = set(table.column_names)

        def values(column: str, default: object) -> Sequence[Any]:
            return table.column(column).to_pylist() if column in names else [default] * self.n_rows

        panel, allele = (values(sidecar_column(name), None) for name in ("panel", "allele"))
        columns = (rows, self.keys(), values("has_annotation", True), panel, allele, values("meta_json", "{}"))
        return [IndexEntry(*entry) for entry in zip(*columns, strict=True)]

    def sidecar(self, name: str, key: int) -> str:
        """Return the JSON text that a side-car has under a key of the index.

        Raises
        ------
        InputError
            If the side-car or the key does not exist.
        MissingResourceError, CorruptResourceError
            If the side-car's file is missing or damaged.
        """
        texts = self.sidecar_texts(name)
        if not 0 <= key < len(texts):
            where = str(self.directory / sidecar_file(name))
            raise InputError(where, "no such key", expected=_numbers(len(texts)), got=str(key))
        return texts[key]

    def sidecar_texts(self, name: str) -> list[str]:
        """Return all JSON texts of a side-car, indexed by key; the file is read once. Raises as :meth:`sidecar`."""
        if name not in self.layout.sidecars:
            raise self._unknown("side-car", self.layout.sidecars, name)
        if name not in self._sidecars:
            file = sidecar_file(name)
            by_key = read_json(self.directory / file, self._checksums.files[file])
            self._sidecars[name] = sidecar_texts_from_json(by_key, str(self.directory / file))
        return self._sidecars[name]

    def load_in_memory(self, *, max_fraction: float = 0.5) -> None:
        """Copy every array into memory; processes forked later share the copy.

        Parameters
        ----------
        max_fraction
            Largest allowed share, 0 to 1, of the memory that this process may use (control groups included).

        Raises
        ------
        MemoryLimitError, CorruptResourceError
            If the arrays would take more; with ``check``, if a batch differs from its checksum.
        """
        check_fits_memory(self.size_bytes, max_fraction, str(self.directory))
        loaded = {name: np.array(self.get_slice(0, self.n_rows, name)) for name in self.arrays}
        for array in loaded.values():
            array.flags.writeable = False
        self._loaded, self._maps = loaded, {}

    def verify(self, progress: Progress = NO_PROGRESS) -> list[str]:
        """Read every file from disk, and return one line for each file or batch that differs from its checksum."""
        return list(find_differences(self._checksums, progress))

    def _rows(self, indices: npt.ArrayLike) -> npt.NDArray[np.integer[Any]]:
        rows = np.asarray(indices)
        if rows.size == 0:
            return np.zeros(0, dtype=np.int64)
        if rows.ndim != 1 or rows.dtype.kind not in "iu":
            got = f"{rows.dtype} of shape {rows.shape}"
            raise InputError(str(self.directory), "invalid row numbers", expected="integers of shape (n,)", got=got)
        if rows.min() < 0 or rows.max() >= self.n_rows:
            wrong = int(rows[(rows < 0) | (rows >= self.n_rows)][0])
            raise InputError(str(self.directory), "no such row", expected=_numbers(self.n_rows), got=str(wrong))
        return rows

    def _name(self, array: str | None) -> str:
        name = next(iter(self.arrays)) if array is None and len(self.arrays) == 1 else array
        if name is None or name not in self.arrays:
            raise self._unknown("array", self.arrays, name)
        return name

    def _unknown(self, what: str, known: Mapping[str, object] | Sequence[str], name: str | None) -> InputError:
        return InputError(str(self.directory), f"no such {what}", expected=f"one of {list(known)}", got=repr(name))

    def _batches(self, rows: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.integer[Any]]:
        return np.unique(rows // self.batch_rows) if self.check and not self._loaded else rows[:0]

    def _array(self, name: str, *, batches: npt.NDArray[np.integer[Any]]) -> npt.NDArray[Any]:
        """Return an array after checking some of its batches, if checks are on."""
        array = self._opened()[name]
        if self.check and not self._loaded:
            self._check_batches(name, batches)
        return array

    def _check_batches(self, name: str, batches: npt.NDArray[np.integer[Any]]) -> None:
        array = self._opened()[name]
        intact = self._intact.setdefault(name, np.zeros(self.layout.n_batches(self.n_rows), dtype=np.bool_))
        for batch in batches[~intact[batches]]:
            first, stop = self._checksums.rows_of(int(batch))
            if problem := self._checksums.batch_problem(name, int(batch), array[first:stop]):
                raise damaged(self.directory / self.arrays[name].file_name, problem)
            intact[batch] = True

    def _opened(self) -> dict[str, npt.NDArray[Any]]:
        """Return all arrays by name: those loaded in memory, or else this process's own mappings."""
        if self._loaded:
            return self._loaded
        if not self._maps or self._maps_pid != os.getpid():
            self._maps = {spec.name: self._map(spec) for spec in self.layout.arrays}
            self._maps_pid = os.getpid()
        return self._maps

    def _map(self, spec: ArraySpec) -> npt.NDArray[Any]:
        shape = (self.n_rows, *spec.shape)
        # open_array compares the size again: reading past the end of a mapped file ends the process with SIGBUS.
        with self._checksums.open_array(spec.name) as handle:
            if not self.n_rows:
                return np.empty(shape, spec.dtype)
            # Not numpy.memmap: slicing it takes ten times as long as slicing an ndarray.
            mapped = mmap.mmap(handle.fileno(), 0, prot=mmap.PROT_READ)
            mapped.madvise(_ADVICE[self.access])
            return np.frombuffer(mapped, spec.disk_dtype).reshape(shape)


def _numbers(count: int) -> str:
    return f"0 to {count - 1}" if count else "nothing, because the store has no rows or values"
