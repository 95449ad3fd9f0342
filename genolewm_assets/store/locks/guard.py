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
        _unlock(descriptor)
    return not free


def _unlock(descriptor: int) -> None:
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def lock_folder(folder: Path, *, wait: bool) -> int:
    """Lock a folder itself, so that no lock file is needed, and return a descriptor, which the caller closes.

    Raises
    ------
    BusyError
        If another process holds the lock and ``wait`` is False.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        locked = flock(descriptor, wait=wait)
    except BaseException:
        os.close(descriptor)
        raise
    if not locked:
        os.close(descriptor)
        raise BusyError(str(folder), "another process has the folder locked", remedy="Wait for it to finish")
    return descriptor


@contextmanager
def locked_folder(folder: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock of a folder while the block runs; otherwise as :func:`lock_folder`."""
    descriptor = lock_folder(folder, wait=wait)
    try:
        yield
    finally:
        os.close(descriptor)


@contextmanager
def guarded(path: Path, wait_s: float) -> Iterator[int]:
    """Hold an exclusive lock on a lock file and yield its descriptor; the file is created if missing and kept.

    Raises
    ------
    BusyError, ResourceError
        If another process holds the lock for ``wait_s`` seconds, or the file system has no locks.
    """
    with _locked(path, os.O_RDWR | os.O_CREAT, shared=False, wait_s=wait_s) as descriptor:
        yield descriptor


@contextmanager
def looked_through(path: Path) -> Iterator[int]:
    """Hold a shared lock on an existing lock file, without waiting and without write permission; yield its descriptor.

    Raises :class:`BusyError` if another process holds the lock exclusively.
    """
    with _locked(path, os.O_RDONLY, shared=True, wait_s=0.0) as descriptor:
        yield descriptor


@contextmanager
def _locked(path: Path, flags: int, *, shared: bool, wait_s: float) -> Iterator[int]:
    deadline = time.monotonic() + wait_s
    while (descriptor := _try_to_lock(path, flags, shared=shared)) is None:
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
            _unlock(descriptor)
        finally:
            os.close(descriptor)


def _try_to_lock(path: Path, flags: int, *, shared: bool) -> int | None:
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
