"""Write an array store row by row; kill it anywhere, open it again, go on after the last committed row.

A group of rows is committed together: arrays and side-car log are synced, then one record of the commit log, synced
too, makes the rows count. Opening cuts every file back to the last record that all files agree with. The writer fills
the one directory it is given; publishing that directory is the business of ``build.py``.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from genolewm_assets.errors import BusyError, ConfigurationError, InputError, ResourceError
from genolewm_assets.store.array_finish import finish_store
from genolewm_assets.store.array_keys import (
    check_fingerprint,
    compute_key,
    fingerprint_differences,
    read_fingerprint,
)
from genolewm_assets.store.array_layout import (
    COMMIT_LOG,
    INDEX,
    SHAPES,
    SIDECAR_LOG,
    ArrayLayout,
    ArraySpec,
    crc32c,
    is_complete,
    read_json,
)
from genolewm_assets.store.array_log import Committed, Entry, Record, check_same_layout, create_log, recover
from genolewm_assets.store.array_rows import SidecarTexts, fit_rows, index_values, read_sidecar_log
from genolewm_assets.store.atomic import make_directories, sync_directory
from genolewm_assets.store.manifest import JsonValue

_SCRATCH = re.compile(r"\..+\.[0-9a-f]{8}\.tmp", re.DOTALL)


class ArrayStoreWriter:
    """A store that is being written; a context manager.

    Parameters
    ----------
    directory
        Made if missing. One that holds committed rows of the same layout is continued; a finished store of the same
        layout is opened as such: :meth:`resume_keys` names its rows, and only :meth:`finalize` may be called.
    arrays
        The arrays, each with the shape of one row.
    key_config
        Whatever must be the same for committed rows to be worth continuing: parameters, and digests of inputs where
        the directory is not chosen by them. JSON values only.
    commit_rows
        Rows under one commit and one checksum. The finished bytes depend on it.
    key_column
        Name of the key's column in ``index.parquet``.
    columns
        Further columns of ``index.parquet`` with their types (``COLUMN_TYPES``), filled from ``meta``.
    sidecars
        Names of values that many rows share: ``panel`` makes ``panels.json`` and the column ``panel_key``.

    Raises
    ------
    ConfigurationError
        If a declaration is not allowed, or the directory holds a store of another layout.
    BusyError
        If another writer has the directory open.
    ResourceError
        If the storage refuses.
    """

    def __init__(
        self,
        directory: Path,
        arrays: Sequence[ArraySpec],
        *,
        key_config: Mapping[str, JsonValue],
        commit_rows: int = 64,
        key_column: str = "key",
        columns: Mapping[str, str] | None = None,
        sidecars: Sequence[str] = (),
    ) -> None:
        columns = {} if columns is None else columns
        key = compute_key(key_config)
        self.layout = ArrayLayout(key, tuple(arrays), commit_rows, key_column, tuple(columns.items()), tuple(sidecars))
        self.directory = directory
        self._handles: dict[str, BinaryIO] = {}
        self._lock: int | None = None
        self._complete = False
        try:
            with self._storage_errors():
                make_directories(directory)
                self._lock = _lock_directory(directory)
                self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        for path in self.directory.iterdir():
            # Left by a kill between writing a file and renaming it; a published store must not list it.
            if _SCRATCH.fullmatch(path.name):
                path.unlink()
        if is_complete(self.directory):
            self._open_complete()
            return
        committed = recover(self.directory, self.layout)
        if committed is None:
            create_log(self.directory, self.layout)
            committed = recover(self.directory, self.layout)
        assert committed is not None, "a log that was just made is readable"
        self._cut_back(committed)

    def _open_complete(self) -> None:
        check_same_layout(self.directory, read_json(self.directory / SHAPES, None), self.layout)
        self._remove_logs()
        self._keys = pq.read_table(self.directory / INDEX, columns=[self.layout.key_column]).column(0).to_pylist()
        self._complete = True

    def _cut_back(self, committed: Committed) -> None:
        lengths = {spec.file_name: spec.row_bytes * len(committed.keys) for spec in self.layout.arrays}
        lengths |= {SIDECAR_LOG: committed.sidecar_bytes, COMMIT_LOG: committed.log_bytes}
        for name, length in lengths.items():
            handle = (self.directory / name).open("r+b" if (self.directory / name).exists() else "x+b")
            self._handles[name] = handle
            handle.truncate(length)
            handle.seek(length)
            os.fsync(handle.fileno())
        sync_directory(self.directory)
        with (self.directory / SIDECAR_LOG).open("rb") as log:
            self._sidecars = SidecarTexts(self.layout.sidecars, read_sidecar_log(log))
        self._keys = committed.keys
        self._known = set(committed.keys)
        self._crc = committed.crc
        self._sidecar_log = (committed.sidecar_bytes, committed.sidecar_crc)
        self._waiting: list[Entry] = []
        self._data: dict[str, list[npt.NDArray[Any]]] = {spec.name: [] for spec in self.layout.arrays}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and self._handles:
                self.commit()
        finally:
            self.close()

    @property
    def n_rows(self) -> int:
        """Rows given so far, committed before or now, and those waiting for the next commit."""
        return len(self._keys)

    def resume_keys(self) -> list[str]:
        """Return the keys of the rows that need not be written again, in order."""
        return list(self._keys)

    def write(
        self,
        row: Mapping[str, npt.ArrayLike],
        *,
        key: str,
        meta: Mapping[str, JsonValue] | None = None,
        sidecars: Mapping[str, str] | None = None,
    ) -> None:
        """Append one row.

        Parameters
        ----------
        row
            One value per array, of the declared shape.
        key
            Name of the row, distinct from all others.
        meta
            Values of the declared columns; what else it holds goes to ``meta_json``.
        sidecars
            JSON texts by name of the side-car.

        Raises
        ------
        InputError
            As :meth:`write_batch`.
        """
        self.write_batch(
            {name: np.asarray(value)[np.newaxis] for name, value in row.items()},
            keys=[key],
            metas=[meta or {}],
            sidecars=[sidecars or {}],
        )

    def write_batch(
        self,
        rows: Mapping[str, npt.ArrayLike],
        *,
        keys: Sequence[str],
        metas: Sequence[Mapping[str, JsonValue]] | None = None,
        sidecars: Sequence[Mapping[str, str]] | None = None,
    ) -> None:
        """Append rows; how many at a time makes no difference to the finished store.

        Parameters
        ----------
        rows
            Per array: shape (len(keys), *row shape).
        keys, metas, sidecars
            As in :meth:`write`, one per row.

        Raises
        ------
        InputError
            If a shape, dtype, name or value does not fit, or a key was used before; nothing of the batch is kept then.
        ResourceError
            If the storage refuses; open the directory again to go on from the last commit.
        """
        self._check_writable()
        metas = [{}] * len(keys) if metas is None else metas
        sidecars = [{}] * len(keys) if sidecars is None else sidecars
        fitted = self._fit(rows, keys, metas, sidecars)
        split = [index_values(self.layout, key, meta, self._where) for key, meta in zip(keys, metas, strict=True)]
        self._check_new(keys)
        for texts in sidecars:
            self._sidecars.check(texts, self._where)
        for number, ((values, rest), texts) in enumerate(zip(split, sidecars, strict=True)):
            self._waiting.append([*values, *self._sidecars.intern(texts), rest])
            self._keys.append(values[0])
            self._known.add(values[0])
            for name, array in fitted.items():
                self._data[name].append(array[number : number + 1])
            if self.n_rows % self.layout.batch_rows == 0:
                self.commit()

    def _fit(
        self,
        rows: Mapping[str, npt.ArrayLike],
        keys: Sequence[str],
        metas: Sequence[Mapping[str, JsonValue]],
        sidecars: Sequence[Mapping[str, str]],
    ) -> dict[str, npt.NDArray[Any]]:
        wanted = {spec.name for spec in self.layout.arrays}
        if set(rows) != wanted:
            raise InputError(self._where, "arrays of a row", expected=str(sorted(wanted)), got=str(sorted(rows)))
        if not len(keys) == len(metas) == len(sidecars):
            got = f"{len(metas)} metas and {len(sidecars)} side-cars"
            raise InputError(self._where, "rows of a batch", expected=f"{len(keys)} of each", got=got)
        return {spec.name: fit_rows(spec, rows[spec.name], len(keys), self._where) for spec in self.layout.arrays}

    def _check_new(self, keys: Sequence[str]) -> None:
        twice = [key for key in keys if key in self._known]
        if not twice and len(set(keys)) != len(keys):
            twice = sorted(key for key in set(keys) if keys.count(key) > 1)
        if twice:
            raise InputError(self._where, "a row of this key was written before", got=repr(twice[0]))

    def commit(self) -> None:
        """Make every row given so far survive a kill and a power cut."""
        self._check_writable()
        if not self._waiting:
            return
        with self._storage_errors():
            for spec in self.layout.arrays:
                self._append(spec.file_name, (chunk.data for chunk in self._data[spec.name]))
            new = self._sidecars.take_new()
            if new:
                self._append(SIDECAR_LOG, [new])
            size, crc = self._sidecar_log
            self._sidecar_log = (size + len(new), crc32c(new, crc))
            ends = {name: self._extend_crc(name, chunks) for name, chunks in self._data.items()}
            record = Record(self.n_rows, ends, *self._sidecar_log, self._waiting)
            self._append(COMMIT_LOG, [record.to_line()])
        self._waiting = []
        self._data = {name: [] for name in self._data}

    def _append(self, name: str, chunks: Iterable[bytes | memoryview]) -> None:
        handle = self._handles[name]
        for chunk in chunks:
            handle.write(chunk)
        handle.flush()
        os.fsync(handle.fileno())

    def _extend_crc(self, name: str, chunks: Iterable[npt.NDArray[Any]]) -> int:
        """Continue the checksum of the last batch, or begin the next one's, and return it."""
        batches = self._crc[name]
        if (self.n_rows - len(self._waiting)) % self.layout.batch_rows == 0:
            batches.append(0)
        for chunk in chunks:
            batches[-1] = crc32c(chunk, batches[-1])
        return batches[-1]

    def finalize(self, fingerprint: Mapping[str, JsonValue]) -> None:
        """Write index, side-cars, checksums and ``_COMPLETE``, and close.

        Cut at any point, it is done again by opening the directory and calling it again.

        Parameters
        ----------
        fingerprint
            From :func:`compute_fingerprint`.

        Raises
        ------
        ConfigurationError
            If ``fingerprint`` is not one, or the store was finished before with another.
        ResourceError
            If the storage refuses.
        """
        check_fingerprint(fingerprint, self._where)
        with self._storage_errors():
            if self._complete:
                self._check_finished_with(fingerprint)
            else:
                self.commit()
                finish_store(self.directory, self.layout, self._crc, self.n_rows, fingerprint)
                self._remove_logs()
        self.close()

    def _check_finished_with(self, fingerprint: Mapping[str, JsonValue]) -> None:
        stored = read_fingerprint(self.directory)
        if stored["sha256"] != fingerprint["sha256"]:
            raise ConfigurationError(
                self._where,
                f"was finished from other sources ({'; '.join(fingerprint_differences(stored, fingerprint))})",
                remedy="Remove the directory and build it again",
            )

    def _remove_logs(self) -> None:
        for name in (COMMIT_LOG, SIDECAR_LOG):
            (self.directory / name).unlink(missing_ok=True)
        sync_directory(self.directory)

    def close(self) -> None:
        """Give up the directory; rows after the last commit are dropped."""
        for handle in self._handles.values():
            # What could not be flushed was not committed either.
            with suppress(OSError):
                handle.close()
        self._handles = {}
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @property
    def _where(self) -> str:
        return str(self.directory)

    def _check_writable(self) -> None:
        if self._complete or not self._handles:
            state = "finished" if self._complete else "closed"
            raise ConfigurationError(
                self._where, f"the array store is {state}", remedy="Open a new writer, in another directory if finished"
            )

    @contextmanager
    def _storage_errors(self) -> Iterator[None]:
        try:
            yield
        except ResourceError:
            raise
        except OSError as err:
            # What is on disk now is known to no one; only opening again finds out.
            self.close()
            raise ResourceError(
                self._where,
                f"the storage refused to write ({err.strerror})",
                remedy="Put that right and run it again; committed rows are kept",
            ) from err


def _lock_directory(directory: Path) -> int:
    """Lock a directory against other writers; the operating system lets go when the process dies."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as err:
        os.close(descriptor)
        raise BusyError(
            str(directory), "another writer has this array store open", remedy="Wait for it to finish, or stop it"
        ) from err
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
