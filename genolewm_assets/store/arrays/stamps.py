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
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
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


def changed_files(files: Mapping[str, Path], stamps: Mapping[str, RowStamp], *, strict: bool = False) -> Iterator[str]:
    """Yield the name of every stamp whose file is missing, unreadable or changed; files are read one at a time.

    Unless ``strict``, a file with the size and modification time of its stamp is not read.
    """
    for name, stamp in stamps.items():
        with suppress(OSError, InputError):
            status = files[name].stat() if name in files else None
            if status and not strict and (status.st_size, status.st_mtime_ns) == (stamp.size_bytes, stamp.mtime_ns):
                continue
            if status and stamp_file(files[name]).sha256 == stamp.sha256:
                continue
        yield name


def write_stamps(directory: Path, stamps: Mapping[str, RowStamp]) -> None:
    """Write ``directory/stamps.json`` atomically: [digest, size, time] by name."""
    document = {name: astuple(stamp) for name, stamp in stamps.items()}
    write_atomic(directory / STAMPS, canonical_json(document, STAMPS))


def read_stamps(directory: Path) -> dict[str, RowStamp]:
    """Read ``directory/stamps.json``; return no stamps if it is missing or damaged: the files are then read instead."""
    with suppress(OSError, ValueError, TypeError, AttributeError):
        document = read_document(directory / STAMPS, remedy="")
        return {name: RowStamp(*values) for name, values in document.items()}
    return {}
