"""Writer of array stores that records the stamps of the files its rows were made from, safely across kills."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from genolewm_assets.errors import ConfigurationError, CorruptResourceError
from genolewm_assets.store.arrays.files import open_to_write
from genolewm_assets.store.arrays.layout import crc32c, is_complete
from genolewm_assets.store.arrays.stamps import (
    RowStamp,
    SourceChangedError,
    read_stamps,
    stamps_as_json,
    stamps_from_json,
    write_stamps,
)
from genolewm_assets.store.arrays.writer import ArrayStoreWriter
from genolewm_assets.store.files import JsonValue, sync_directory

STAMP_LOG = "stamps.jsonl"


class StampedStoreWriter(ArrayStoreWriter):
    """Writer of an array store with the stamps of its source files; the finished store has them in ``stamps.json``.

    Parameters and errors are those of :class:`ArrayStoreWriter`. :meth:`open_stamps` starts the recording.
    """

    _log: StampLog | None = None

    def open_stamps(self) -> None:
        """Open the log of stamps and read the stamps of the committed rows.

        Raises
        ------
        CorruptResourceError
            If stamps of committed rows are missing from the log.
        ResourceError
            If writing to disk fails.
        """
        if not is_complete(self.directory):
            with self._storage_errors():
                self._log = StampLog(self.directory / STAMP_LOG, self.n_rows)

    @property
    def stamps(self) -> dict[str, RowStamp]:
        """Stamps of the files that the rows were made from, by root-relative name."""
        return read_stamps(self.directory) if self._log is None else dict(self._log.stamps)

    def add_stamps(self, stamps: Mapping[str, RowStamp]) -> None:
        """Record the stamps of files that were just read; call this before writing the rows made from them.

        Raises
        ------
        ConfigurationError
            If :meth:`open_stamps` was not called, or the store is finished or closed.
        SourceChangedError
            If the content of a file differs from its content when an earlier row was made from it.
        ResourceError
            If writing to disk fails.
        """
        self._writable()
        if self._log is None:
            raise ConfigurationError(
                str(self.directory), "the log of stamps is not open", remedy="Declare the files first"
            )
        with self._storage_errors():
            self._log.add(self.n_rows, stamps)

    def commit(self) -> None:
        """Sync the stamps, then all rows written so far, so that they survive a kill or a power cut."""
        if self._log is not None:
            with self._storage_errors():
                self._log.mark(self.n_rows)
        super().commit()

    def finalize(self, fingerprint: Mapping[str, JsonValue]) -> None:
        """Write ``stamps.json`` and finish the store; parameter and errors as for :meth:`ArrayStoreWriter.finalize`."""
        if self._log is not None:
            with self._storage_errors():
                # Written first, because a finished store has its stamps in stamps.json only.
                write_stamps(self.directory, self._log.stamps)
        super().finalize(fingerprint)
        with self._storage_errors():
            (self.directory / STAMP_LOG).unlink(missing_ok=True)

    def close(self) -> None:
        """Release the directory; rows after the last commit are lost."""
        super().close()
        if self._log is not None:
            self._log.close()
            self._log = None


class StampLog:
    """Log of stamps beside the commit log of a store; opening it removes the lines of uncommitted rows.

    A line has a row number and the stamps of files that this row and later rows are made from. A line without stamps
    is a mark: it is synced before that number of rows is committed. If the mark of the committed rows is missing,
    stamps of these rows were lost.

    Parameters
    ----------
    path
        File of the log; made if missing.
    n_rows
        Number of committed rows of the store.

    Raises
    ------
    CorruptResourceError
        If the mark of ``n_rows`` rows is missing.
    """

    def __init__(self, path: Path, n_rows: int) -> None:
        self.path = path
        self.stamps: dict[str, RowStamp] = {}
        end = marked = 0
        for row, stamps, offset in _lines(path):
            if row > n_rows or (stamps and row == n_rows):
                break
            self.stamps.update(stamps)
            marked, end = max(marked, 0 if stamps else row), offset
        if marked != n_rows:
            raise CorruptResourceError(
                str(path),
                "stamps of committed rows are missing",
                expected=f"stamps of {n_rows} rows",
                got=f"of {marked}",
            )
        self._marked = marked
        self._handle = os.fdopen(open_to_write(path), "r+b")
        try:
            sync_directory(path.parent)
            self._handle.truncate(end)
            self._handle.seek(end)
        except BaseException:
            self._handle.close()
            raise

    def add(self, row: int, stamps: Mapping[str, RowStamp]) -> None:
        """Record the stamps of files that the next rows are made from.

        Parameters
        ----------
        row
            Number of rows written to the store so far.
        stamps
            Stamps by root-relative name.

        Raises
        ------
        SourceChangedError
            If the content of a file differs from its content when an earlier row was made from it.
        """
        for name, stamp in stamps.items():
            if self.stamps.get(name, stamp).sha256 != stamp.sha256:
                raise SourceChangedError(
                    name,
                    "was changed since rows were made from it",
                    expected=f"sha256 {self.stamps[name].sha256}",
                    got=f"sha256 {stamp.sha256}",
                    remedy="Close the writer and build again",
                )
        if new := {name: stamp for name, stamp in stamps.items() if name not in self.stamps}:
            self._handle.write(_line(row, new))
            # Pass the line to the operating system, so that a kill of the process cannot lose stamps of committed rows.
            self._handle.flush()
            self.stamps.update(new)

    def mark(self, n_rows: int) -> None:
        """Sync all stamps of the rows that are about to be committed, followed by a mark."""
        if n_rows != self._marked:
            self._handle.write(_line(n_rows, {}))
            self._handle.flush()
            os.fsync(self._handle.fileno())
            self._marked = n_rows

    def close(self) -> None:
        """Close the file; errors are ignored, because unwritten lines belong to uncommitted rows."""
        with suppress(OSError):
            self._handle.close()


def _line(row: int, stamps: Mapping[str, RowStamp]) -> bytes:
    text = json.dumps([row, stamps_as_json(stamps)], ensure_ascii=False, separators=(",", ":")).encode()
    return f"{crc32c(text):08x} ".encode() + text + b"\n"


def _lines(path: Path) -> Iterator[tuple[int, dict[str, RowStamp], int]]:
    """Yield row number, stamps and end offset of each line, up to the first incomplete or damaged line."""
    if not path.is_file():
        return
    offset = 0
    with path.open("rb") as handle:
        for line in handle:
            text = line[9:-1]
            if line != f"{crc32c(text):08x} ".encode() + text + b"\n":
                return
            offset += len(line)
            row, stamps = json.loads(text)
            yield row, stamps_from_json(stamps), offset
