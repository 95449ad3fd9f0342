"""Digests of local files, recorded when a file is read, so that later comparisons need not read it again.

::

    <folder>/<digest of the path>.<algorithm>.json   {"path", "size_bytes", "modified_ns", "digest"}

A record holds as long as the file has the same size and modification time. Paths are relative to the folder, so that a
root may be moved together with its sources. The records are a shortcut: no manifest covers them, and a record that is
lost is written by the next build that reads the file.
"""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from genolewm_assets.errors import MissingResourceError
from genolewm_assets.store.files import canonical_json, make_directories, read_document, write_atomic

Algorithm: TypeAlias = Literal["md5", "sha256"]

_SECOND_NS = 1_000_000_000


class Digests(Protocol):
    """How the digest of a local file is found."""

    def of(self, path: Path, algorithm: Algorithm) -> str:
        """Return the digest of a file in lower-case hex; raises OSError if the file cannot be read."""
        ...


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
        with path.open("rb") as handle:
            before, now_ns = os.fstat(handle.fileno()), time.time_ns()
            digest = hashlib.file_digest(handle, algorithm).hexdigest()
        after = path.stat()
        same = all(
            getattr(before, name) == getattr(after, name) for name in ("st_dev", "st_ino", "st_size", "st_mtime_ns")
        )
        # Where times are kept in whole seconds (FAT: two), a change right after the reading may keep the time.
        settled = now_ns - after.st_mtime_ns > 2 * _SECOND_NS or after.st_mtime_ns % _SECOND_NS != 0
        if same and settled:
            self._record(path, algorithm, after, digest)
        return digest

    def _record(self, path: Path, algorithm: Algorithm, status: os.stat_result, digest: str) -> None:
        record = {
            "path": _relative(self.folder, path),
            "size_bytes": status.st_size,
            "modified_ns": status.st_mtime_ns,
            "digest": digest,
        }
        where, content = _record_of(self.folder, path, algorithm), canonical_json(record, str(path))
        with suppress(OSError):  # what has no record is not compared later, and says so
            if not where.is_file() or where.read_bytes() != content:
                make_directories(where.parent)
                write_atomic(where, content)


@dataclass(frozen=True, slots=True)
class KnownDigests:
    """Reads no file: takes the digests that :class:`RecordedDigests` recorded in ``folder``."""

    folder: Path

    def of(self, path: Path, algorithm: Algorithm) -> str:
        """Return the recorded digest; for a file of another size or time, a text that says so and equals no digest.

        Raises
        ------
        MissingResourceError
            If no build has recorded the digest of this file.
        OSError
            If the file does not exist.
        """
        status = path.stat()
        try:
            record = read_document(_record_of(self.folder, path, algorithm), remedy="")
            then, digest = (int(record["size_bytes"]), int(record["modified_ns"])), str(record["digest"])
        except (OSError, ValueError, KeyError, TypeError) as err:
            raise MissingResourceError(
                str(path),
                "no build of this root has recorded its content",
                remedy="Materialise what is made from it: an unchanged file is recorded, and nothing is built again",
            ) from err
        if then == (status.st_size, status.st_mtime_ns):
            return digest
        modified = datetime.fromtimestamp(status.st_mtime_ns / _SECOND_NS, UTC).isoformat(timespec="seconds")
        return f"unread: {status.st_size:,} bytes (then {then[0]:,}), modified {modified}"


def _record_of(folder: Path, path: Path, algorithm: Algorithm) -> Path:
    name = hashlib.sha256(os.fsencode(_relative(folder, path))).hexdigest()[:32]
    return folder / f"{name}.{algorithm}.json"


def _relative(folder: Path, path: Path) -> str:
    return os.path.relpath(path.absolute(), folder.absolute())
