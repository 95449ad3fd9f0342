"""Write an array store row by row; after a kill, a new writer continues after the last committed row.

Arrays and side-car log are synced before the record in the commit log that makes their rows valid. An opened store is
truncated to the last record that agrees with all files. ``cache`` and ``store.artefacts`` publish the directory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from genolewm_assets.errors import ConfigurationError, InputError, ResourceError
from genolewm_assets.store.arrays.checksums import read_checksums
from genolewm_assets.store.arrays.files import WrittenFiles
from genolewm_assets.store.arrays.finish import finish_store
from genolewm_assets.store.arrays.keys import check_fingerprint, compute_key, fingerprint_differences, read_fingerprint
from genolewm_assets.store.arrays.layout import COMMIT_LOG, SIDECAR_LOG, ArrayLayout, ArraySpec, crc32c, is_complete
from genolewm_assets.store.arrays.log import (
    Committed,
    check_same_layout,
    commit_line,
    create_log,
    extend_checksums,
    read_commits,
    recover,
)
from genolewm_assets.store.arrays.rows import (
    CommitGroup,
    KnownKeys,
    SidecarTexts,
    fit_rows,
    index_columns,
    read_sidecar_log,
)
from genolewm_assets.store.files import JsonValue, make_directories, sync_directory

_SCRATCH = re.compile(r"\..+\.[0-9a-f]{8}\.tmp", re.DOTALL)


class ArrayStoreWriter:
    """Writer of one array store; a context manager that commits on success and closes.

    Parameters
    ----------
    directory
        Directory of the store; made if missing. If it holds committed rows of the same layout, the writer continues
        after them. If it holds a finished store of the same layout, :meth:`resume_keys` returns its keys and only
        :meth:`finalize` may be called.
    arrays
        Arrays, each with the shape of one row.
    key_config
        Everything that must be equal for committed rows to be continued: parameters, and digests of inputs unless
        they are part of the directory's name. JSON values only.
    commit_rows
        Number of rows per commit; a commit costs two or more disk syncs.
    commit_ms
        A write also commits if the oldest uncommitted row has waited this many milliseconds; None: no time limit.
    batch_rows
        Rows per checksum. The finished bytes depend on it, but not on the commits.
    key_column
        Name of the column of row keys in ``index.parquet``.
    columns
        Further columns of ``index.parquet`` with their types (``COLUMN_TYPES``), filled from ``meta``.
    sidecars
        Names of values that many rows share: ``panel`` makes the file ``panels.json`` and the column ``panel_key``.

    Raises
    ------
    ConfigurationError
        If a declaration is not allowed, or the directory holds a store of another layout.
    BusyError
        If another writer has the directory open.
    VersionError
        If another version of this code began the store.
    ResourceError
        If writing to disk fails, or the store is damaged.
    """

    def __init__(
        self,
        directory: Path,
        arrays: Sequence[ArraySpec],
        *,
        key_config: Mapping[str, JsonValue],
        commit_rows: int = 8_192,
        commit_ms: int | None = 1_000,
        batch_rows: int = 64,
        key_column: str = "key",
        columns: Mapping[str, str] | None = None,
        sidecars: Sequence[str] = (),
    ) -> None:
        key, named = compute_key(key_config), tuple((columns or {}).items())
        self.layout = ArrayLayout(key, tuple(arrays), batch_rows, key_column, named, tuple(sidecars))
        self.directory = directory
        self._commit_rows, self._commit_ms = commit_rows, commit_ms
        if min(commit_rows, commit_rows if commit_ms is None else commit_ms) < 1:
            got = f"{commit_rows} and {commit_ms}"
            raise ConfigurationError(str(directory), "commit_rows or commit_ms", expected="at least 1", got=got)
        self._files: WrittenFiles | None = None
        self._complete = False
        try:
            with self._storage_errors():
                make_directories(directory)
                self._files = WrittenFiles(directory)
                self._open(self._files)
        except BaseException:
            self.close()
            raise

    def _open(self, files: WrittenFiles) -> None:
        for path in self.directory.iterdir():
            # A kill between writing and renaming leaves a temporary file; the published store must not contain it.
            if _SCRATCH.fullmatch(path.name):
                path.unlink()
        if is_complete(self.directory):
            self._open_complete()
            return
        committed = recover(self.directory, self.layout)
        if committed is None:
            create_log(self.directory, self.layout)
            committed = recover(self.directory, self.layout)
        files.check_in_place()
        assert committed is not None, "a new log is readable"
        self._cut_back(files, committed)

    def _open_complete(self) -> None:
        checksums = read_checksums(self.directory)
        check_same_layout(self.directory, checksums.layout.as_json(), self.layout)
        with checksums.open_index():
            self._remove_logs()
        self._rows = checksums.n_rows
        self._complete = True

    def _cut_back(self, files: WrittenFiles, committed: Committed) -> None:
        for spec in self.layout.arrays:
            files.open_at(spec.file_name, spec.row_bytes * committed.rows)
        files.open_at(SIDECAR_LOG, committed.sidecar_bytes)
        files.open_at(COMMIT_LOG, committed.log_bytes)
        sync_directory(self.directory)
        with (self.directory / SIDECAR_LOG).open("rb") as log:
            self._sidecars = SidecarTexts(self.layout.sidecars, read_sidecar_log(log))
        self._rows = committed.rows
        self._crc = committed.crc
        self._sidecar_log = (committed.sidecar_bytes, committed.sidecar_crc)
        self._log_bytes = committed.log_bytes
        self._group = CommitGroup(self.layout)
        self._known = KnownKeys(self.stored_keys)
        for keys, *_ in read_commits(self.directory):
            self._known.add(keys)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None and self._files and self._files.are_open:
                self.commit()
        finally:
            self.close()

    @property
    def n_rows(self) -> int:
        """Number of rows, including those not yet committed."""
        return self._rows

    def resume_keys(self) -> list[str]:
        """Return the keys of the rows that are stored already and must not be written again, in order."""
        return list(self.stored_keys())

    def stored_keys(self) -> Iterator[str]:
        """Yield the keys of :meth:`resume_keys`, read from disk in pieces; no row is written meanwhile."""
        if self._complete:
            with read_checksums(self.directory).open_index() as index:
                for batch in index.iter_batches(columns=[self.layout.key_column]):
                    yield from batch.column(0).to_pylist()
            return
        for keys, *_ in read_commits(self.directory):
            yield from keys
        yield from self._group.columns[0]

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
            Values of the row by array name, of the declared shape.
        key
            Unique name of the row.
        meta, sidecars
            Values of the declared columns, all others of which go to ``meta_json``; and JSON text by side-car name.

        Raises
        ------
        InputError, ConfigurationError, ResourceError
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
        """Append rows; the finished store does not depend on the number of rows per call.

        Parameters
        ----------
        rows
            Values by array name, shape (len(keys), ...).
        keys, metas, sidecars
            As in :meth:`write`, one per row.

        Raises
        ------
        InputError
            If a shape, dtype, name or value does not fit, or a key was used before; no row of the batch is kept.
        ConfigurationError
            If the store is finished or closed.
        ResourceError
            If writing to disk fails; open the directory again to continue after the last commit.
        """
        files = self._writable()
        fitted = self._fit(rows, len(keys), metas, sidecars)
        columns, rest = index_columns(self.layout, keys, metas, self._where)
        if (repeated := self._known.find_repeated(keys)) is not None:
            raise InputError(self._where, "a row with this key was written before", got=repr(repeated))
        for texts in sidecars or ():
            self._sidecars.check(texts, self._where)
        first = 0
        while first < len(keys):
            part = slice(first, first + self._commit_rows - self.n_rows % self._commit_rows)
            shared = self._sidecars.intern([{}] * len(keys[part]) if sidecars is None else sidecars[part])
            self._write_data(files, {name: array[part] for name, array in fitted.items()})
            self._group.add([*(column[part] for column in columns), *shared, rest[part]])
            self._known.add(keys[part])
            self._rows += len(keys[part])
            first = part.stop
            if self.n_rows % self._commit_rows == 0:
                self.commit()
        if self._commit_ms is not None and self._group.waited_ms() >= self._commit_ms:
            self.commit()

    def _write_data(self, files: WrittenFiles, rows: Mapping[str, npt.NDArray[Any]]) -> None:
        """Append rows to their files without committing them."""
        with self._storage_errors():
            for spec in self.layout.arrays:
                data = rows[spec.name]
                extend_checksums(self._crc[spec.name], data, self.n_rows, self.layout.batch_rows)
                files.write(spec.file_name, data)

    def _fit(
        self,
        rows: Mapping[str, npt.ArrayLike],
        n_rows: int,
        metas: Sequence[Mapping[str, JsonValue]] | None,
        sidecars: Sequence[Mapping[str, str]] | None,
    ) -> dict[str, npt.NDArray[Any]]:
        wanted = {spec.name for spec in self.layout.arrays}
        if set(rows) != wanted:
            raise InputError(self._where, "wrong arrays", expected=str(sorted(wanted)), got=str(sorted(rows)))
        for what, given in (("metas", metas), ("side-cars", sidecars)):
            if given is not None and len(given) != n_rows:
                raise InputError(self._where, f"number of {what}", expected=f"{n_rows}", got=str(len(given)))
        return {spec.name: fit_rows(spec, rows[spec.name], n_rows, self._where) for spec in self.layout.arrays}

    def commit(self) -> None:
        """Sync all rows written so far to disk, so that they survive a kill or a power cut.

        Raises
        ------
        ConfigurationError, ResourceError
            If the store is finished or closed, or writing to disk fails.
        """
        files, group = self._writable(), self._group
        if not group.n_rows:
            return
        first_batch = (self.n_rows - group.n_rows) // self.layout.batch_rows
        checksums = {name: crcs[first_batch:] for name, crcs in self._crc.items()}
        new = self._sidecars.take_new()
        size, crc = self._sidecar_log
        self._sidecar_log = (size + len(new), crc32c(new, crc))
        line = commit_line(self.n_rows, checksums, self._sidecar_log, group.columns)
        with self._storage_errors():
            files.check_in_place()
            files.write(SIDECAR_LOG, new)
            for name in (*(spec.file_name for spec in self.layout.arrays), *([SIDECAR_LOG] if new else [])):
                files.sync(name)
            files.write(COMMIT_LOG, line)
            try:
                files.sync(COMMIT_LOG)
            except OSError:
                files.take_back(COMMIT_LOG, self._log_bytes)
                raise
        self._log_bytes += len(line)
        self._group = CommitGroup(self.layout)

    def finalize(self, fingerprint: Mapping[str, JsonValue]) -> None:
        """Write index, side-cars, checksums and ``_COMPLETE``, and close.

        After a kill at any point, open the directory again and call this method again, with the same fingerprint of
        :func:`compute_fingerprint`.

        Raises
        ------
        ConfigurationError
            If ``fingerprint`` is malformed, or the store was finished before with another fingerprint.
        ResourceError
            If writing to disk fails.
        """
        check_fingerprint(fingerprint, self._where)
        with self._storage_errors():
            if self._complete:
                self._check_finished_with(fingerprint)
            else:
                self.commit()
                self._writable().check_in_place()
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
        """Release the directory; rows after the last commit are lost."""
        if self._files is not None:
            self._files.close()

    @property
    def _where(self) -> str:
        return str(self.directory)

    def _writable(self) -> WrittenFiles:
        """Return the open files; raise :class:`ConfigurationError` if the store is finished or closed."""
        if self._complete or self._files is None or not self._files.are_open:
            state = "finished" if self._complete else "closed"
            raise ConfigurationError(
                self._where, f"the array store is {state}", remedy="Open a new writer, in another directory if finished"
            )
        return self._files

    @contextmanager
    def _storage_errors(self) -> Iterator[None]:
        try:
            yield
        except ResourceError:
            raise
        except OSError as err:
            # A build identifies the disk by the error's file name, which calls with a file descriptor do not set.
            err.filename = err.filename or self._where
            # The state of the files is unknown now; opening the store again determines it.
            self.close()
            raise ResourceError(
                self._where,
                f"the storage refused to write ({err.strerror})",
                remedy="Correct the cause and run it again; committed rows are kept",
            ) from err
