"""The folder of one location in ``work/``: its work directories, whose they are, and which may be gone on with.

A directory's name ends in the mark of the lease that it belongs to. What a builder left that released its lock, or is
dead for certain, may be continued or removed. What belongs to one that lost its lock and may yet be alive (its machine
was asleep, or cut off) is neither continued nor removed: two writers in one directory would mix their rows, and a build
that suddenly misses its files would report damage where there is none. It is left until that builder gives up or its
process is known to have ended; or, where that cannot be known, has been silent for a day. Removing it is safe for what
is published even then, since that builder could not publish any more.
"""

from __future__ import annotations

import os
import secrets
import time
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

from genolewm_assets.store.files import make_directories, remove_tree, sync_directory
from genolewm_assets.store.locks import GUARD, RECORD, FoundRecord, Standing, WriterLease, find_displaced, find_record

#: What the name of an unfinished build begins with that can be continued.
RESUMABLE = "resume."

_BUILD = "build."
_SILENT_S = 24 * 3600.0


def leftovers(folder: Path) -> list[Path]:
    """Return what lies in a folder that no builder is at any more, if nobody holds its lock; else also the holder's."""
    if not folder.is_dir():
        return []
    doubtful = _doubtful_records(folder)
    kept = {folder / GUARD, folder / RECORD, *doubtful}
    marks = [record.owner.mark if record.owner else "" for record in doubtful.values()]
    return sorted(path for path in folder.iterdir() if path not in kept and not _is_of(path, marks))


def _doubtful_records(folder: Path) -> dict[Path, FoundRecord]:
    """Return the records of owners that lost the lock, or may lose it to anyone who asks, and may yet be alive."""
    current = find_record(folder / RECORD, time.time)
    found = {
        path: record
        for path, record in find_displaced(folder, time.time).items()
        if record.standing is not Standing.DEAD
    }
    if current is not None and current.standing is Standing.EXPIRED:
        found[folder / RECORD] = current
    return {path: record for path, record in found.items() if time.time() - record.renewed_s < _SILENT_S}


def _is_of(path: Path, marks: list[str]) -> bool:
    """Tell whether a directory bears one of the marks; an owner of which nothing is known may have any."""
    return path.name.startswith((_BUILD, RESUMABLE)) and any(path.name.endswith(mark) for mark in marks)


def work_directory(folder: Path, lease: WriterLease | None, name: str | None) -> Path:
    """Return a work directory that bears the lease's mark: one of that name if one was left, else an empty one."""
    path = folder / _marked(name or f"{_BUILD}{secrets.token_hex(4)}", lease)
    with _fenced(lease):
        left = [] if name is None else [other for other in leftovers(folder) if is_called(other, name)]
        if not left:
            # Not tempfile.mkdtemp: a published directory keeps its mode, and others should be able to read it.
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
    """Tell whether a path is a work directory of a name, whoever's."""
    return name in {path.name, path.name.rpartition(".")[0]} and path.is_dir() and not path.is_symlink()


def sweep(folder: Path, lease: WriterLease, *, keep: str | None = None) -> None:
    """Remove what builders of a location left there, except work directories that are called ``keep``."""
    # Listed inside the fence: should the lock be lost after it, what the next owner makes is not in the list.
    with lease.fenced():
        left = [path for path in leftovers(folder) if keep is None or not is_called(path, keep)]
    for path in left:
        remove_tree(path)


def _fenced(lease: WriterLease | None) -> AbstractContextManager[None]:
    return nullcontext() if lease is None else lease.fenced()


def _marked(name: str, lease: WriterLease | None) -> str:
    return name if lease is None or lease.owner is None else f"{name}.{lease.owner.mark}"
