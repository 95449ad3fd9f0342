"""Dagster's SQLite databases of runs, events and schedules under ``<root>/dagster``: find the ones that cannot be read.

They hold the history that the UI shows. Artefacts, their manifests and their checks do not depend on them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from genolewm_assets.errors import BusyError, GenoLeWMError, ResourceError


def check_databases(home: Path, *, thorough: bool = False) -> None:
    """Open every database of Dagster, read-only.

    Parameters
    ----------
    home
        ``<root>/dagster``; it need not exist yet.
    thorough
        Read every page, not only the list of tables; takes seconds for a gigabyte.

    Raises
    ------
    ResourceError
        If a database cannot be read; the message names its file.
    """
    for path in sorted(home.rglob("*.db")):
        try:
            found = _examined(read_only_uri(path), thorough=thorough)
            if thorough and found != ("ok",):
                # A process that wrote meanwhile is the harmless reason.
                found = _examined(shared_uri(path), thorough=thorough)
        except (sqlite3.Error, OSError) as err:
            raise (_busy(path, err) if _is_busy(err) else _broken(path, str(err))) from err
        if thorough and found != ("ok",):
            raise _broken(path, " ".join(str(found[0]).split()))


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

    A database that another process has open is read together with that process's log of changes. Where there is none,
    SQLite would create one even to read, so the file is opened as one that nobody changes. What was read is right only
    if :func:`state_of` is the same before and after.
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
    """Return the error that says which database of Dagster failed; None if ``err`` is not of a database."""
    cause = getattr(err, "orig", err)
    if not isinstance(cause, sqlite3.Error):
        return None
    try:
        check_databases(home, thorough=True)
    except ResourceError as broken:
        return broken
    if _is_busy(cause):
        return _busy(home, cause)
    return ResourceError(
        str(home),
        f"the database of runs cannot be written ({cause})",
        remedy="Free some disk space or make the root writable, and run the command again",
    )


def _is_busy(err: BaseException) -> bool:
    return str(getattr(err, "sqlite_errorname", "")).startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def _busy(path: Path, err: BaseException) -> BusyError:
    return BusyError(
        str(path),
        f"Dagster's database is in use ({err})",
        remedy="End the process that uses it (genolewm ui, a demo, a backup), or wait, and run the command again",
    )


def _broken(path: Path, problem: str) -> ResourceError:
    return ResourceError(
        str(path),
        f"Dagster's database cannot be read ({problem})",
        remedy="Artefacts are safe: only the history of runs is in it. Restore it from a backup, or move it away "
        "(with -wal and -shm) to begin a new history, and run the command again",
    )
