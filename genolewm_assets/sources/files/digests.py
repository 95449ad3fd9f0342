"""Digests of local files, recorded under the file's size and time, so that an unchanged file is read once.

A copy or a restored backup has another time and is read again. Paths are relative to the folder of the records, so that
a root may be moved with its sources. No manifest covers the records: one that is lost is written again.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from genolewm_assets.progress import NO_PROGRESS, ByteCount, Progress
from genolewm_assets.store.files import canonical_json, make_directories, read_document, write_atomic

Algorithm: TypeAlias = Literal["md5", "sha256"]

_LOG = logging.getLogger(__name__)
_SECOND_NS = 1_000_000_000
_BLOCK_BYTES = 1 << 20


class Digests(Protocol):
    """How the digest of a local file is found."""

    def of(self, path: Path, algorithm: Algorithm) -> str:
        """Return the digest of a file in lower-case hex; raises OSError if the file cannot be read."""


class ReadDigests:
    """Reads every file in full."""

    def of(self, path: Path, algorithm: Algorithm) -> str:
        """Return the digest of a file in lower-case hex; raises OSError if the file cannot be read."""
        with path.open("rb") as handle:
            return hashlib.file_digest(handle, algorithm).hexdigest()


@dataclass(frozen=True, slots=True)
class RecordedDigests:
    """Reads every file in full and records its digest in ``folder``."""

    folder: Path

    def of(self, path: Path, algorithm: Algorithm) -> str:
        """Return the digest of a file in lower-case hex; raises OSError if the file cannot be read."""
        digest, status = _read(path, algorithm, NO_PROGRESS)
        if status is not None:
            _record(self.folder, path, algorithm, status, digest)
        return digest


@dataclass(frozen=True, slots=True)
class KnownDigests:
    """Takes recorded digests; reads, and records, a file that has none in ``folder`` or was written at another time.

    Nothing is recorded in a folder that is another user's.
    """

    folder: Path
    progress: Progress = NO_PROGRESS
    _found: dict[tuple[Path, Algorithm, int, int], str] = field(default_factory=dict, init=False, repr=False)

    def of(self, path: Path, algorithm: Algorithm) -> str:
        """Return the digest of a file; of one that has another size than recorded, a text that equals no digest."""
        status = path.stat()
        key = (path, algorithm, status.st_size, status.st_mtime_ns)
        if key not in self._found:
            self._found[key] = self._recorded(path, algorithm, status) or self._settled(path, algorithm)
        return self._found[key]

    def _recorded(self, path: Path, algorithm: Algorithm, status: os.stat_result) -> str | None:
        try:
            record = read_document(_record_of(self.folder, path, algorithm), remedy="")
            size, time_ns, digest = int(record["size_bytes"]), int(record["modified_ns"]), str(record["digest"])
        except (OSError, ValueError, KeyError, TypeError, OverflowError):
            return None
        if size != status.st_size:
            modified = datetime.fromtimestamp(status.st_mtime_ns / _SECOND_NS, UTC).isoformat(timespec="seconds")
            return f"unread: {status.st_size:,} bytes (then {size:,}), modified {modified}"
        return digest if time_ns == status.st_mtime_ns else None

    def _settled(self, path: Path, algorithm: Algorithm) -> str:
        digest, status = _read(path, algorithm, self.progress)
        if status is not None and not (_is_own(self.folder) and _record(self.folder, path, algorithm, status, digest)):
            _say_once(self.folder)
        return digest


def _read(path: Path, algorithm: Algorithm, progress: Progress) -> tuple[str, os.stat_result | None]:
    """Return the digest of a file, and the status that it belongs to; None if that is not certain."""
    with path.open("rb") as handle:
        before, now_ns = os.fstat(handle.fileno()), time.time_ns()
        digest, count = hashlib.new(algorithm, usedforsecurity=False), ByteCount(progress, before.st_size)
        while block := handle.read(_BLOCK_BYTES):
            digest.update(block)
            count.add(len(block))
    after = path.stat()
    same = all(getattr(before, name) == getattr(after, name) for name in ("st_dev", "st_ino", "st_size", "st_mtime_ns"))
    # Where times are kept in whole seconds (FAT: two), a change right after the reading may keep the time.
    settled = now_ns - after.st_mtime_ns > 2 * _SECOND_NS or after.st_mtime_ns % _SECOND_NS != 0
    return digest.hexdigest(), after if same and settled else None


def _record(folder: Path, path: Path, algorithm: Algorithm, status: os.stat_result, digest: str) -> bool:
    """Record a digest, and return whether that was possible."""
    record = {
        "path": _relative(folder, path),
        "size_bytes": status.st_size,
        "modified_ns": status.st_mtime_ns,
        "digest": digest,
    }
    where, content = _record_of(folder, path, algorithm), canonical_json(record, str(path))
    try:
        if not where.is_file() or where.read_bytes() != content:
            make_directories(where.parent)
            write_atomic(where, content)
    except OSError:  # what has no record is read again
        return False
    return True


def _is_own(folder: Path) -> bool:
    """Return whether a folder, or the one in which it would be created, is this user's."""
    return next(each for each in (folder, *folder.parents) if each.exists()).stat().st_uid == os.geteuid()


@cache
def _say_once(folder: Path) -> None:
    _LOG.warning("%s cannot be written, or is another user's: source files are read in full each time", folder)


def _record_of(folder: Path, path: Path, algorithm: Algorithm) -> Path:
    name = hashlib.sha256(os.fsencode(_relative(folder, path))).hexdigest()[:32]
    return folder / f"{name}.{algorithm}.json"


def _relative(folder: Path, path: Path) -> str:
    return os.path.relpath(path.absolute(), folder.absolute())
