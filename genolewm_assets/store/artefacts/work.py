"""Work directories of one location: who owns each, and which of them can be resumed.

A name ends in the mark of its owner's lease. An owner that lost its lock may still run, because its machine was asleep
or cut off: its directory is neither resumed nor removed until the owner gives up, or its process is known to have
ended, or, if that cannot be known, it has not renewed its lock for a day. Two writers in one directory would mix their
rows. An owner without its lock cannot publish.
"""

from __future__ import annotations

import os
import secrets
import time
from contextlib import nullcontext, suppress
from pathlib import Path

from genolewm_assets.store.files import make_directories, remove_tree, sync_directory
from genolewm_assets.store.locks import GUARD, RECORD, FoundRecord, Standing, WriterLease, find_displaced, find_record

#: Prefix of the names of work directories that can be resumed.
RESUMABLE = "resume."

_BUILD = "build."
# Seconds without renewal after which an owner that may still run loses its work directory.
_SILENT_S = 24 * 3600.0


def leftovers(folder: Path) -> list[Path]:
    """Return the sorted paths that killed builds left in the folder of a location.

    If a process holds the lock, its own work directory is included.
    """
    if not folder.is_dir():
        return []
    doubtful = _doubtful_records(folder)
    kept = {folder / GUARD, folder / RECORD, *doubtful}
    marks = [record.owner.mark if record.owner else "" for record in doubtful.values()]
    return sorted(path for path in folder.iterdir() if path not in kept and not _has_mark_of(path, marks))


def _doubtful_records(folder: Path) -> dict[Path, FoundRecord]:
    """Return the records, by path, of owners whose lock was taken or has expired and which may still run."""
    current = find_record(folder / RECORD, time.time)
    found = {
        path: record
        for path, record in find_displaced(folder, time.time).items()
        if record.standing is not Standing.DEAD
    }
    if current is not None and current.standing is Standing.EXPIRED:
        found[folder / RECORD] = current
    return {path: record for path, record in found.items() if time.time() - record.renewed_s < _SILENT_S}


def _has_mark_of(path: Path, marks: list[str]) -> bool:
    """Return whether a path is a work directory with one of the marks; an unknown owner's empty mark fits all."""
    return path.name.startswith((_BUILD, RESUMABLE)) and any(path.name.endswith(mark) for mark in marks)


def work_directory(folder: Path, lease: WriterLease | None, name: str | None) -> Path:
    """Return a work directory with the mark of the lease: the latest one called ``name``, otherwise an empty one."""
    mark = "" if lease is None or lease.owner is None else f".{lease.owner.mark}"
    path = folder / f"{name or _BUILD + secrets.token_hex(4)}{mark}"
    with nullcontext() if lease is None else lease.fenced():
        left = [] if name is None else [other for other in leftovers(folder) if is_called(other, name)]
        if not left:
            # tempfile.mkdtemp would deny access to other users, also after publication.
            make_directories(folder)
            path.mkdir()
            try:
                sync_directory(folder)
            except BaseException:
                with suppress(OSError):
                    path.rmdir()
                raise
        elif path not in left:
            os.rename(max(left, key=lambda other: other.stat().st_mtime), path)  # noqa: PTH104
    return path


def is_called(path: Path, name: str) -> bool:
    """Return whether a path is a work directory with this name, of any owner."""
    return name in {path.name, path.name.rpartition(".")[0]} and path.is_dir() and not path.is_symlink()


def sweep(folder: Path, lease: WriterLease, *, keep: str | None = None) -> None:
    """Remove the work directories that killed builds of a location left, except those called ``keep``."""
    # Listed while the lock is held: if it is lost later, the files of the next owner are not in the list.
    with lease.fenced():
        left = [path for path in leftovers(folder) if keep is None or not is_called(path, keep)]
    for path in left:
        remove_tree(path)
