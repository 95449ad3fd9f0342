"""Stamps of source files, taken when the files are read: they record the content that rows were made from.

The digest decides whether a file has changed; size and time avoid reading an unchanged file again. They are in
``stamps.json``, which no digest covers, because they differ between two builds of the same store.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from genolewm_assets.errors import InputError
from genolewm_assets.store.artefacts import STAMPS
from genolewm_assets.store.files import canonical_json, read_document, write_atomic

# FAT stores times in steps of two seconds, most other file systems in finer steps. A change to a file that is older
# than this therefore changes its modification time.
_SETTLED_AFTER_NS = 2_000_000_000


class SourceChangedError(InputError):
    """The content of a source file differs from the content that rows were made from."""


@dataclass(frozen=True, slots=True)
class RowStamp:
    """Digest (64 hex digits), size and modification time of a file when it was read.

    Attributes
    ----------
    mtime_ns
        Modification time in nanoseconds since 1970. None if the file was modified less than two seconds before it was
        read, because a later change might keep the same time; such a file is always compared by content.
    """

    sha256: str
    size_bytes: int
    mtime_ns: int | None

    def is_of(self, status: os.stat_result) -> bool:
        """Tell whether a file still has this size and modification time; False if only its content can show it."""
        return (status.st_size, status.st_mtime_ns) == (self.size_bytes, self.mtime_ns)


def read_stamped(path: Path) -> tuple[bytes, RowStamp]:
    """Read a file, and return its content with the stamp of these bytes.

    Raises
    ------
    InputError
        If the file cannot be read, or is not a regular file.
    SourceChangedError
        If the file was changed or replaced during reading, so that the bytes may mix old and new content.
    """
    with _open_source(path) as handle:
        before, now_ns = os.fstat(handle.fileno()), time.time_ns()
        data = handle.read()
        return data, _stamp(path, before, now_ns, hashlib.sha256(data).hexdigest(), len(data))


def stamp_file(path: Path) -> RowStamp:
    """Stamp a file without keeping its bytes; errors are those of :func:`read_stamped`."""
    with _open_source(path) as handle:
        before, now_ns = os.fstat(handle.fileno()), time.time_ns()
        sha256 = hashlib.file_digest(handle, "sha256").hexdigest()
        return _stamp(path, before, now_ns, sha256, handle.tell())


@contextmanager
def _open_source(path: Path) -> Iterator[io.BufferedReader]:
    try:
        # Checked before opening, because opening a FIFO would block.
        if not stat.S_ISREG(path.stat().st_mode):
            raise InputError(str(path), "is not a regular file")
        with path.open("rb") as handle:
            yield handle
    except OSError as err:
        raise InputError(str(path), f"cannot be read ({err.strerror})", remedy="Check the path") from err


def _stamp(path: Path, before: os.stat_result, now_ns: int, sha256: str, size_bytes: int) -> RowStamp:
    # stat by path, so that another file renamed to this path is detected too.
    after = path.stat()
    facts = [(s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns) for s in (before, after)]
    if facts[0] != facts[1] or size_bytes != after.st_size:
        raise SourceChangedError(
            str(path), "was changed while it was being read", remedy="Run it again when no program writes to the file"
        )
    settled = now_ns - after.st_mtime_ns > _SETTLED_AFTER_NS
    return RowStamp(sha256, size_bytes, after.st_mtime_ns if settled else None)


def stamp_files(
    files: Mapping[str, Path], *, known: Mapping[str, RowStamp] | None = None, strict: bool = False
) -> dict[str, RowStamp]:
    """Stamp files; unless ``strict``, one with the size and modification time of its known stamp is not read."""
    known = {} if known is None or strict else known
    return {name: _stamp_again(path, known.get(name)) for name, path in files.items()}


def _stamp_again(path: Path, known: RowStamp | None) -> RowStamp:
    try:
        untouched = known is not None and known.is_of(path.stat())
    except OSError:
        untouched = False
    return known if known is not None and untouched else stamp_file(path)


def changed_files(files: Mapping[str, Path], stamps: Mapping[str, RowStamp], *, strict: bool = False) -> Iterator[str]:
    """Yield the name of every stamp whose file is missing, unreadable or changed; files are read one at a time."""
    for name, stamp in stamps.items():
        try:
            now = None if name not in files else stamp_files({name: files[name]}, known=stamps, strict=strict)[name]
        except InputError:
            now = None
        if now is None or now.sha256 != stamp.sha256:
            yield name


def write_stamps(directory: Path, stamps: Mapping[str, RowStamp]) -> None:
    """Write ``directory/stamps.json`` atomically."""
    write_atomic(directory / STAMPS, canonical_json(stamps_as_json(stamps), STAMPS))


def read_stamps(directory: Path) -> dict[str, RowStamp]:
    """Read ``directory/stamps.json``; return no stamps if it is missing or damaged: the files are then read instead."""
    try:
        return stamps_from_json(read_document(directory / STAMPS, remedy=""))
    except (OSError, ValueError, TypeError):
        return {}


def stamps_as_json(stamps: Mapping[str, RowStamp]) -> dict[str, list[str | int | None]]:
    """Return stamps as JSON values, [digest, size, time] by name; :func:`stamps_from_json` reads them."""
    return {name: [stamp.sha256, stamp.size_bytes, stamp.mtime_ns] for name, stamp in stamps.items()}


def stamps_from_json(document: object) -> dict[str, RowStamp]:
    """Parse the document of :func:`stamps_as_json`."""
    if not isinstance(document, dict):
        raise TypeError(f"expected stamps by name, got {type(document).__name__}")
    return {name: RowStamp(*values) for name, values in document.items()}
