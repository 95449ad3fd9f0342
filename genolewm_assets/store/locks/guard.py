"""Locks of open files and folders by flock(2); the operating system releases them when a process ends."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from genolewm_assets.errors import BusyError, ResourceError
from genolewm_assets.store.files import naming

#: Error numbers of flock(2) on a file system without locks.
NO_LOCKS = frozenset({errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL})
_POLL_S = 0.01


def flock(descriptor: int, *, shared: bool = False, wait: bool = False) -> bool:
    """Lock an open file or folder; return False if another process holds the lock and ``wait`` is False.

    The lock ends when this process and every process forked since have closed the descriptor. Several processes can
    hold a shared lock at once, but none together with an exclusive lock.
    """
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def is_flocked(descriptor: int) -> bool:
    """Return whether an open file is locked through another descriptor; True if flock fails."""
    try:
        free = flock(descriptor, shared=True)
    except OSError:
        return True
    if free:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    return not free


@contextmanager
def locked_folder(folder: Path, *, wait: bool = True) -> Iterator[int]:
    """Hold the lock of a folder itself, so that no lock file is needed, and yield its descriptor.

    Raises
    ------
    BusyError
        If another process holds the lock and ``wait`` is False.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if not flock(descriptor, wait=wait):
            raise BusyError(str(folder), "another process has the folder locked", remedy="Wait for it to finish")
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def guarded(path: Path, wait_s: float, *, shared: bool = False) -> Iterator[int]:
    """Hold a lock on a lock file and yield its descriptor; the file is created if missing and kept.

    Parameters
    ----------
    shared
        Hold a shared lock, for which the file must exist and need not be writable.

    Raises
    ------
    BusyError, ResourceError
        If another process holds the lock for ``wait_s`` seconds, or the file system has no locks.
    """
    deadline = time.monotonic() + wait_s
    while (descriptor := _try_to_lock(path, shared=shared)) is None:
        if time.monotonic() >= deadline:
            raise BusyError(
                str(path),
                f"another process still holds the lock after {wait_s:g} s of waiting",
                remedy="Wait for it to finish, or stop it, and run this again",
            )
        time.sleep(_POLL_S)
    try:
        yield descriptor
    finally:
        try:
            # Closing is not enough: a process forked meanwhile shares the lock through its copy of the descriptor.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        finally:
            os.close(descriptor)


def _try_to_lock(path: Path, *, shared: bool) -> int | None:
    flags = os.O_RDONLY if shared else os.O_RDWR | os.O_CREAT
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    try:
        with naming(path):
            # If the file was removed meanwhile, other processes lock a new one, and this lock has no effect.
            if flock(descriptor, shared=shared) and os.fstat(descriptor).st_nlink:
                return descriptor
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
