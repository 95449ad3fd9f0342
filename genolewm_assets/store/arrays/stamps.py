"""Which bytes rows were made from: stamps of source files, taken at the moment the files are read.

A stamp is the SHA-256 of a file's content with the file's size and modification time. The digest is what counts: it
goes into ``fingerprint.json``. Size and time only save reading a file again that nobody has touched; they lie in
``stamps.json``, which like ``provenance.json`` no digest covers, since they differ between two builds of one thing.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from genolewm_assets.errors import InputError
from genolewm_assets.store.artefacts import STAMPS
from genolewm_assets.store.files import canonical_json, write_atomic

# FAT keeps times to two seconds, most others finer: an older file that is changed gets another time.
_SETTLED_AFTER_NS = 2_000_000_000


class SourceChangedError(InputError):
    """A source is no longer what rows were made from."""


@dataclass(frozen=True, slots=True)
class RowStamp:
    """What a file was when it was read.

    Attributes
    ----------
    sha256
        Of the content, 64 hex digits.
    mtime_ns
        Modification time in nanoseconds since 1970; None where the file was written so shortly before it was read
        that a later change need not show in its time. Such a file is read again to be compared.
    """

    sha256: str
    size_bytes: int
    mtime_ns: int | None

    def is_of(self, status: os.stat_result) -> bool:
        """Tell whether a file looks untouched since; False where only its content can tell."""
        return (status.st_size, status.st_mtime_ns) == (self.size_bytes, self.mtime_ns)


def read_stamped(path: Path) -> tuple[bytes, RowStamp]:
    """Read a file and stamp the very bytes that are returned.

    Raises
    ------
    InputError
        If it cannot be read, or is no regular file.
    SourceChangedError
        If it was changed or replaced meanwhile, so that the bytes may be part old, part new.
    """
    with _open_source(path) as handle:
        before, now_ns = os.fstat(handle.fileno()), time.time_ns()
        data = handle.read()
        return data, _stamp(path, before, now_ns, hashlib.sha256(data).hexdigest(), len(data))


def stamp_file(path: Path) -> RowStamp:
    """Stamp a file without keeping its bytes; raises as :func:`read_stamped`."""
    with _open_source(path) as handle:
        before, now_ns = os.fstat(handle.fileno()), time.time_ns()
        sha256 = hashlib.file_digest(handle, "sha256").hexdigest()
        return _stamp(path, before, now_ns, sha256, handle.tell())


@contextmanager
def _open_source(path: Path) -> Iterator[io.BufferedReader]:
    try:
        # Before opening: a FIFO would block for ever.
        if not stat.S_ISREG(path.stat().st_mode):
            raise InputError(str(path), "is not a regular file")
        with path.open("rb") as handle:
            yield handle
    except OSError as err:
        raise InputError(str(path), f"cannot be read ({err.strerror})", remedy="Check the path") from err


def _stamp(path: Path, before: os.stat_result, now_ns: int, sha256: str, size_bytes: int) -> RowStamp:
    # By its name again, so that a file that was renamed over the one read is noticed too.
    after = path.stat()
    facts = [(s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns) for s in (before, after)]
    if facts[0] != facts[1] or size_bytes != after.st_size:
        raise SourceChangedError(
            str(path), "was changed while it was being read", remedy="Run it again when nothing writes to it"
        )
    settled = now_ns - after.st_mtime_ns > _SETTLED_AFTER_NS
    return RowStamp(sha256, size_bytes, after.st_mtime_ns if settled else None)


def stamp_files(
    files: Mapping[str, Path], *, known: Mapping[str, RowStamp] | None = None, strict: bool = False
) -> dict[str, RowStamp]:
    """Stamp files as they are now, reading those that may have changed.

    Parameters
    ----------
    files
        By root-relative name.
    known
        Earlier stamps by name. A file whose size and modification time are those of its stamp keeps it.
    strict
        Read every file all the same.

    Raises
    ------
    InputError, SourceChangedError
        As :func:`read_stamped`.
    """
    known = {} if known is None or strict else known
    return {name: _stamp_again(path, known.get(name)) for name, path in files.items()}


def _stamp_again(path: Path, known: RowStamp | None) -> RowStamp:
    try:
        untouched = known is not None and known.is_of(path.stat())
    except OSError:
        untouched = False
    return known if known is not None and untouched else stamp_file(path)


def changed_files(files: Mapping[str, Path], stamps: Mapping[str, RowStamp], *, strict: bool = False) -> Iterator[str]:
    """Yield the name of every stamp whose file is gone, unreadable or of another content now, as they are found.

    Parameters
    ----------
    files
        By root-relative name; a name without a stamp is left out.
    strict
        Read every file, also one whose size and modification time are those of its stamp.
    """
    for name, stamp in stamps.items():
        try:
            now = None if name not in files else stamp_files({name: files[name]}, known=stamps, strict=strict)[name]
        except InputError:
            now = None
        if now is None or now.sha256 != stamp.sha256:
            yield name


def write_stamps(directory: Path, stamps: Mapping[str, RowStamp]) -> None:
    """Write ``directory/stamps.json``."""
    write_atomic(directory / STAMPS, canonical_json(stamps_as_json(stamps), STAMPS))


def read_stamps(directory: Path) -> dict[str, RowStamp]:
    """Read ``directory/stamps.json``; empty where it is missing or damaged, for it is only a shortcut."""
    try:
        return stamps_from_json(json.loads((directory / STAMPS).read_bytes()))
    except (OSError, ValueError, TypeError):
        return {}


def stamps_as_json(stamps: Mapping[str, RowStamp]) -> dict[str, list[str | int | None]]:
    """Return what :func:`stamps_from_json` reads: digest, size and time by name."""
    return {name: [stamp.sha256, stamp.size_bytes, stamp.mtime_ns] for name, stamp in stamps.items()}


def stamps_from_json(document: object) -> dict[str, RowStamp]:
    """Read what :func:`stamps_as_json` gives.

    Raises
    ------
    ValueError, TypeError
        If it is something else.
    """
    if not isinstance(document, dict):
        raise TypeError(f"expected stamps by name, got {type(document).__name__}")
    return {name: RowStamp(*values) for name, values in document.items()}
