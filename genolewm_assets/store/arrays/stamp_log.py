"""Array stores that know which bytes their rows were read from, also after a kill in the middle of the writing."""

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
    """An array store with the stamps of the files that its rows were read from, in ``stamps.json`` when finished.

    Parameters as of :class:`ArrayStoreWriter`; nothing is stamped before :meth:`open_stamps` was called.
    """

    _log: StampLog | None = None

    def open_stamps(self) -> None:
        """Begin to keep stamps, after those of the rows committed before.

        Raises
        ------
        CorruptResourceError
            If it is not known what committed rows were read from.
        ResourceError
            If the storage refuses.
        """
        if not is_complete(self.directory):
            with self._storage_errors():
                self._log = StampLog(self.directory / STAMP_LOG, self.n_rows)

    @property
    def stamps(self) -> dict[str, RowStamp]:
        """Stamps of the files that the rows so far were made from, by name."""
        return read_stamps(self.directory) if self._log is None else dict(self._log.stamps)

    def add_stamps(self, stamps: Mapping[str, RowStamp]) -> None:
        """Keep the stamps of files that were read just now; call it before the rows made from them are written.

        Raises
        ------
        ConfigurationError
            If no stamps are kept, or the store is finished or closed.
        SourceChangedError
            If a file had another content when an earlier row was made from it.
        ResourceError
            If the storage refuses.
        """
        self._writable()
        if self._log is None:
            raise ConfigurationError(str(self.directory), "no stamps are kept", remedy="Declare the files first")
        with self._storage_errors():
            self._log.add(self.n_rows, stamps)

    def commit(self) -> None:
        """Make every row given so far survive a kill and a power cut, and its stamps before it."""
        if self._log is not None:
            with self._storage_errors():
                self._log.mark(self.n_rows)
        super().commit()

    def finalize(self, fingerprint: Mapping[str, JsonValue]) -> None:
        """Finish the store; parameters and errors as of :meth:`ArrayStoreWriter.finalize`."""
        if self._log is not None:
            with self._storage_errors():
                # Before the store is finished: from then on its stamps are known from here alone.
                write_stamps(self.directory, self._log.stamps)
        super().finalize(fingerprint)
        with self._storage_errors():
            (self.directory / STAMP_LOG).unlink(missing_ok=True)

    def close(self) -> None:
        """Give up the directory; rows after the last commit are dropped."""
        super().close()
        if self._log is not None:
            self._log.close()
            self._log = None


class StampLog:
    """A log of stamps beside the commit log of the same store; what belongs to rows that do not count is cut off.

    A line holds a row number and the stamps taken for that row and those after it. A line without stamps is a mark,
    synced before that many rows are committed, so that a log that lost stamps of committed rows is known by it.

    Parameters
    ----------
    path
        Made if missing.
    n_rows
        Committed rows of the store.

    Raises
    ------
    CorruptResourceError
        If it does not reach to the committed rows, so that what they were read from is unknown.
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
                str(path), "lost what rows were read from", expected=f"stamps of {n_rows} rows", got=f"of {marked}"
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
        """Keep the stamps of files from which the next rows are made.

        Parameters
        ----------
        row
            Rows given to the store so far.

        Raises
        ------
        SourceChangedError
            If a file had another content when an earlier row was made from it.
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
            # To the operating system, so that no committed row outlives its stamps when the process is killed.
            self._handle.flush()
            self.stamps.update(new)

    def mark(self, n_rows: int) -> None:
        """Have on disk all stamps of the rows that are about to be committed."""
        if n_rows != self._marked:
            self._handle.write(_line(n_rows, {}))
            self._handle.flush()
            os.fsync(self._handle.fileno())
            self._marked = n_rows

    def close(self) -> None:
        """Close the file; what could not be written belongs to no committed row."""
        with suppress(OSError):
            self._handle.close()


def _line(row: int, stamps: Mapping[str, RowStamp]) -> bytes:
    text = json.dumps([row, stamps_as_json(stamps)], ensure_ascii=False, separators=(",", ":")).encode()
    return f"{crc32c(text):08x} ".encode() + text + b"\n"


def _lines(path: Path) -> Iterator[tuple[int, dict[str, RowStamp], int]]:
    """Yield each row number, its stamps and the offset behind its line, up to the first line that is not whole."""
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
