"""Bytes that a long task has produced, and how far it is, kept on disk together, so that a later process goes on."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

from genolewm_assets.sources.files.partial import open_locked, writing
from genolewm_assets.store.files import JsonValue, canonical_json, read_document, write_atomic

_BLOCK_BYTES = 1 << 20


class Journal:
    """A file that only grows, and a JSON document beside it, ``<path>.json``, which says how much of the file counts.

    The document states the key, the length and SHA-256 of the bytes, the state of the task after them, and its own
    SHA-256. If it, or the bytes, are not as it says, or the key is another, both are dropped.

    Attributes
    ----------
    state
        State of the last :meth:`save`; None if there is none that fits the key.
    dropped
        Whether a state was found that is damaged or of another key.
    """

    def __init__(self, path: Path, key: Mapping[str, JsonValue], file: FileIO) -> None:
        self.path, self._key, self._file = path, dict(key), file
        self._document = path.with_name(f"{path.name}.json")
        self.state: JsonValue = None
        self._size, self._digest = 0, hashlib.sha256()
        self.dropped = self._document.exists() and not self._resume()
        if self.state is None:
            self.restart()

    @classmethod
    @contextmanager
    def open(cls, path: Path, key: Mapping[str, JsonValue]) -> Iterator[Journal]:
        """Open or create a journal under an exclusive lock, as :class:`BusyError` says if another process has it."""
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            file = open_locked(path)
        with file:
            journal = cls(path, key, file)
            try:
                yield journal
            finally:
                if journal.state is None:
                    journal.discard()

    def _resume(self) -> bool:
        try:
            document = read_document(self._document, remedy="")
            stated = document.pop("sha256")
            if stated != self._digest_of(document) or document["key"] != self._key:
                return False
            left = size = int(document["size"])
            self._file.seek(0)
            while left > 0 and (block := self._file.read(min(left, _BLOCK_BYTES))):
                self._digest.update(block)
                left -= len(block)
            if left or self._digest.hexdigest() != document["digest"]:
                return False
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return False
        with writing(self.path):
            self._file.truncate(size)
        self._size, self.state = size, document["state"]
        return True

    def restart(self) -> None:
        """Drop bytes and state."""
        with writing(self.path):
            self._document.unlink(missing_ok=True)
            self._file.seek(0)
            self._file.truncate(0)
        self._size, self._digest, self.state = 0, hashlib.sha256(), None

    def save(self, more: bytes, state: JsonValue) -> None:
        """Append bytes, then replace the state; after a crash or a power cut both are as before, or both as after."""
        with writing(self.path):
            rest = memoryview(more)
            while rest:
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
            self._size += len(more)
            self._digest.update(more)
            document: dict[str, JsonValue] = {"key": self._key, "size": self._size, "digest": self._digest.hexdigest()}
            document["state"] = self.state = state
            document["sha256"] = self._digest_of(document)
            write_atomic(self._document, canonical_json(document, str(self._document)))

    def discard(self) -> None:
        """Remove the journal."""
        self.state = None
        self._document.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)

    def _digest_of(self, document: Mapping[str, JsonValue]) -> str:
        return hashlib.sha256(canonical_json(dict(document), str(self._document))).hexdigest()
