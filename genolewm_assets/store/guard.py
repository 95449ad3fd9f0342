"""A lock that is held for moments, by flock(2): the operating system lets go of it when a process dies."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from genolewm_assets.errors import BusyError, ResourceError
from genolewm_assets.store.atomic import naming

#: What a file system that has no locks says.
NO_LOCKS = frozenset({errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL})
_POLL_S = 0.01


@contextmanager
def guarded(path: Path, wait_s: float) -> Iterator[int]:
    """Hold a lock file alone; it is made if missing and stays there. Yields its descriptor.

    Raises
    ------
    BusyError
        If another holds it all that time.
    ResourceError
        If the file system has no locks.
    """
    with _locked(path, os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX, wait_s) as descriptor:
        yield descriptor


@contextmanager
def looked_through(path: Path) -> Iterator[int]:
    """Hold an existing lock file together with others that only look; no waiting, no right to write needed."""
    with _locked(path, os.O_RDONLY, fcntl.LOCK_SH, 0.0) as descriptor:
        yield descriptor


@contextmanager
def _locked(path: Path, flags: int, kind: int, wait_s: float) -> Iterator[int]:
    deadline = time.monotonic() + wait_s
    while (descriptor := _try_to_lock(path, flags, kind)) is None:
        if time.monotonic() >= deadline:
            raise BusyError(
                str(path),
                f"another process has held the lock for the {wait_s:g} s that were waited",
                remedy="Wait for it to finish, or stop it, and run this again",
            )
        time.sleep(_POLL_S)
    try:
        yield descriptor
    finally:
        try:
            # Closing would do, but for processes forked meanwhile: they have the descriptor too.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        finally:
            os.close(descriptor)


def _try_to_lock(path: Path, flags: int, kind: int) -> int | None:
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    try:
        with naming(path):
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        # Somebody may have removed the file: then the next one to come locks another.
        if os.fstat(descriptor).st_nlink:
            return descriptor
    except BlockingIOError:
        pass
    except OSError as err:
        os.close(descriptor)
        if err.errno not in NO_LOCKS:
            raise
        raise ResourceError(
            str(path),
            f"the file system has no locks (flock: {err.strerror})",
            remedy="Mount it with locks, or keep the folder on another file system",
        ) from err
    os.close(descriptor)
    return None
