"""Dagster's SQLite databases of runs, events and schedules under ``<root>/dagster``: why one cannot be used."""

from __future__ import annotations

import errno
import os
import shlex
import sqlite3
import traceback
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from genolewm_assets.errors import BusyError, CorruptResourceError, GenoLeWMError, ResourceError

#: Folders of the databases in ``<root>/dagster``.
DATABASE_FOLDERS = ("history", "schedules")
#: A file system with less room, in bytes, is full: SQLite may then even fail to read.
_ROOM_BYTES = 1 << 20
#: Modules in which an error means that the content of a database is damaged, if its pages are not.
_READING = ("dagster._core.storage.", "dagster_shared.serdes.", "sqlalchemy.")


def check_databases(home: Path, *, thorough: bool = False) -> None:
    """Raise :class:`ResourceError` if a database cannot be read; ``thorough`` reads every page (seconds for 1 GB)."""
    for path in sorted(path for name in DATABASE_FOLDERS for path in (home / name).rglob("*.db")):
        try:
            check_is_file(path)
            found = _examined(read_only_uri(path), thorough=thorough)
            if thorough and found != ("ok",):
                # A process that wrote meanwhile is the harmless reason.
                found = _examined(shared_uri(path), thorough=thorough)
        except (sqlite3.Error, UnicodeError) as err:  # texts of a damaged database may be no UTF-8
            if os.path.lexists(path):  # else it is of a run that was deleted meanwhile
                raise _explained(path, err) from err
            continue
        if thorough and found != ("ok",):
            raise _broken(path, " ".join(str(found[0]).split()))


def check_is_file(path: Path) -> None:
    """Raise :class:`CorruptResourceError` if something else than a file is in the place of a database."""
    if os.path.lexists(path) and not path.is_file():
        raise _broken(path, "it is a link to nothing" if path.is_symlink() else "it is not a regular file")


def _examined(uri: str, *, thorough: bool) -> tuple[object, ...]:
    with closing(sqlite3.connect(uri, uri=True)) as database:
        answer = database.execute("PRAGMA quick_check(1)" if thorough else "PRAGMA schema_version").fetchone()
    return tuple(answer or ())


def shared_uri(path: Path) -> str:
    """Return the URI by which SQLite opens a database to read it while others write; it may leave a log beside it."""
    # An absolute path, quoted: the name may hold characters that have a meaning in a URI.
    return f"{path.resolve().as_uri()}?mode=ro"


def read_only_uri(path: Path) -> str:
    """Return the URI by which SQLite opens a database to read it and leaves no file beside it.

    Without a log of changes, which SQLite would create, the file is opened as one that nobody changes. What was read is
    right only if :func:`state_of` is the same before and after.
    """
    return shared_uri(path) if _log(path).exists() else f"{shared_uri(path)}&immutable=1"


def state_of(path: Path) -> tuple[int, ...]:
    """Return what changes when a process writes to a database: inode, size, modification time, log of changes."""
    facts = path.stat()
    return facts.st_ino, facts.st_size, facts.st_mtime_ns, _log(path).exists()


def _log(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


@contextmanager
def database_errors(home: Path) -> Iterator[None]:
    """Convert an error that Dagster's databases cause inside to a :class:`ResourceError`."""
    try:
        yield
    except GenoLeWMError:
        raise
    except Exception as err:
        stated = described(home, err)
        if stated is None:
            raise
        raise stated from err


def described(home: Path, err: BaseException) -> ResourceError | None:
    """Return the error that says which database of Dagster failed and why; None if ``err`` is not of a database."""
    cause = getattr(err, "orig", err)
    if not isinstance(cause, sqlite3.Error) and not _is_of_reading(err):
        return None
    told = _explained(home, cause)
    if isinstance(told, CorruptResourceError):
        # A full disk or a lock can look like damage: it is called so only where pages or tables are damaged.
        try:
            check_databases(home, thorough=True)
        except ResourceError as found:
            return found
    return told


def _is_of_reading(err: BaseException) -> bool:
    """Return whether an error is of Dagster's code that reads what it stored, called by this package."""
    names = [str(frame.f_globals.get("__name__")) for frame, _ in traceback.walk_tb(err.__traceback__)]
    last = max((at for at, name in enumerate(names) if name.startswith("genolewm_assets.")), default=-1)
    return isinstance(err, Exception) and any(name.startswith(_READING) for name in names[last + 1 :])


def _explained(path: Path, err: BaseException) -> ResourceError:
    """Return why a database, or one of a folder, failed: in use, disk full, not allowed, disk at fault, or damaged."""
    code, number = str(getattr(err, "sqlite_errorname", "")), getattr(err, "errno", None)
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return BusyError(
            str(path),
            f"Dagster's database is in use ({err})",
            remedy="End the process that uses it (genolewm ui, a demo, a backup), or wait, and run the command again",
        )
    if code == "SQLITE_FULL" or number in (errno.ENOSPC, errno.EDQUOT) or "is full" in str(err) or _is_full(path):
        problem, remedy = "its file system is full", "Free some disk space (genolewm gc --dry-run lists what may go)"
    elif code.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM")) or number in (
        errno.EACCES,
        errno.EROFS,
    ):
        problem, remedy = "this user may not", "Let this user read and write it and its folder"
    elif code.startswith("SQLITE_IOERR") or number == errno.EIO:
        problem, remedy = "the disk failed", "Look for the cause in the log of the system, and at quota and mount"
    else:
        return _broken(path, str(err) if isinstance(err, sqlite3.Error) else f"{type(err).__name__}: {err}")
    return ResourceError(
        str(path),
        f"Dagster's database cannot be read or written: {problem} ({err})",
        remedy=f"{remedy}, and run the command again",
    )


def _is_full(path: Path) -> bool:
    while not path.exists():
        path = path.parent
    space = os.statvfs(path)
    return space.f_bavail * space.f_frsize < _ROOM_BYTES or (space.f_files > 0 and space.f_favail == 0)


def _broken(path: Path, problem: str) -> CorruptResourceError:
    root = next((each.parent for each in (path, *path.parents) if each.name == "dagster"), path)
    return CorruptResourceError(
        str(path),
        f"Dagster's database is damaged ({problem})",
        remedy="Artefacts are safe: only the history of runs is in it. Restore it from a backup, or begin a new one: "
        f"genolewm history reset --root {shlex.quote(str(root))}",
    )
