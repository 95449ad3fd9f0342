"""An unfinished download on disk: its bytes, and a record of how many of them are synced and verified."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from io import FileIO
from pathlib import Path

from genolewm_assets.errors import BusyError, FetchError, printable
from genolewm_assets.sources.files.remote import RemoteStamp
from genolewm_assets.store.files import read_document, sync_directory
from genolewm_assets.store.locks import flock

_CHECKPOINT_BYTES = 16 << 20
_CHUNK_BYTES = 1 << 20


class PartialFile:
    """The unfinished download ``X.part`` and its record ``X.part.json``; opened with :meth:`open`.

    The record states URL, stamp, number and MD5 of the bytes that were synced before the record was written. When a
    part is opened, bytes past that number are cut off; if fewer bytes are on disk, or their MD5 differs, all are
    dropped. A part that a crash left longer, shorter or altered is therefore never continued unchanged.
    """

    def __init__(self, path: Path, url: str, file: FileIO) -> None:
        self.path, self.url, self._file = path, url, file
        self._record = path.with_name(f"{path.name}.json")
        self._gone = False
        self._reset(RemoteStamp())
        self._resume()

    @classmethod
    @contextmanager
    def open(cls, path: Path, *, url: str) -> Iterator[PartialFile]:
        """Open or create the part under an exclusive lock; on exit record its state, or remove it if it is empty."""
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            file = open_locked(path)
        with file:
            partial = cls(path, url, file)
            try:
                yield partial
            finally:
                partial._record_or_discard()

    def _reset(self, stamp: RemoteStamp) -> None:
        self.done, self.stamp = 0, stamp
        self._recorded = 0
        self._digest = hashlib.md5(usedforsecurity=False)

    def _resume(self) -> None:
        """Continue with the bytes that the record confirms; drop all bytes if it confirms none."""
        try:
            record = read_document(self._record, remedy="")
            done, md5, stamp = int(record["done"]), record["md5"], RemoteStamp(**record["stamp"])
            known = record["url"] == printable(self.url) and done > 0
        except (OSError, ValueError, KeyError, TypeError):
            known = False
        if known:
            self._file.seek(0)
            while self.done < done and (chunk := self._file.read(min(_CHUNK_BYTES, done - self.done))):
                self._count(chunk)
            if self.done == done and self.md5() == md5:
                self.stamp, self._recorded = stamp, done
                self._file.truncate(done)
                return
        self.restart()

    def _count(self, chunk: bytes) -> None:
        self.done += len(chunk)
        self._digest.update(chunk)

    def restart(self, stamp: RemoteStamp | None = None) -> None:
        """Drop all bytes and set the stamp of the version that is appended next."""
        with writing(self.path):
            self._record.unlink(missing_ok=True)
            self._file.seek(0)
            self._file.truncate(0)
        self._reset(stamp or RemoteStamp())

    def append(self, chunk: bytes) -> None:
        """Append bytes; after every 16 MiB the part is synced and its record is written."""
        with writing(self.path):
            rest = memoryview(chunk)
            while rest:
                rest = rest[self._file.write(rest) :]
        self._count(chunk)
        if self.done - self._recorded >= _CHECKPOINT_BYTES:
            self._checkpoint()

    def md5(self) -> str:
        """Return the MD5 of the bytes so far, in lower-case hex."""
        return self._digest.hexdigest()

    def publish(self, target: Path) -> None:
        """Sync the part to disk, rename it to ``target``, and remove its record."""
        self._gone = True
        with writing(target):
            os.fsync(self._file.fileno())
            self._record.unlink(missing_ok=True)
            self.path.replace(target)
            sync_directory(target.parent)

    def discard(self) -> None:
        """Remove the part and its record."""
        self._gone = True
        self._record.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)

    def _record_or_discard(self) -> None:
        if not self._gone and self.done:
            self._checkpoint()
        elif not self._gone:
            self.discard()

    def _checkpoint(self) -> None:
        """Sync the part, then replace its record."""
        state = {"url": printable(self.url), "stamp": asdict(self.stamp), "done": self.done, "md5": self.md5()}
        fresh = self._record.with_name(f"{self._record.name}.new")
        with writing(self.path):
            os.fsync(self._file.fileno())
            fresh.write_text(json.dumps(state, sort_keys=True), encoding="utf-8")
            fresh.replace(self._record)
        self._recorded = self.done


def open_locked(path: Path) -> FileIO:
    """Open or create a file under an exclusive lock; raises :class:`BusyError` if another process has it."""
    while True:
        # Unbuffered: after a failed write, closing a buffered file would write the buffer again and fail again.
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b", buffering=0)
        if not flock(file.fileno()):
            file.close()
            raise BusyError(str(path), "another process is downloading to it", remedy="Wait for it to end")
        # The process that held the lock before may have renamed the file to its target: then open a new part.
        if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
            return file
        file.close()


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Convert an ``OSError`` of a write into a :class:`FetchError` that names ``path``."""
    try:
        yield
    except BusyError:
        raise
    except OSError as error:
        raise FetchError(
            str(path), f"cannot be written ({error.strerror or error})", remedy="Free space or choose another folder"
        ) from error
