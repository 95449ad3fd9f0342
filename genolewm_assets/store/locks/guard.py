"""Locks of open files and folders, by flock(2): the operating system lets go of them when a process dies."""

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

#: What a file system that has no locks says.
NO_LOCKS = frozenset({errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL})
_POLL_S = 0.01


def flock(descriptor: int, *, shared: bool = False, wait: bool = False) -> bool:
    """Lock an open file or folder; False if another has it locked, and ``wait`` is False.

    Closing the descriptor unlocks it, once processes forked meanwhile have closed theirs.

    Parameters
    ----------
    shared
        Together with others that lock it shared.
    """
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def is_flocked(descriptor: int) -> bool:
    """Tell whether another has an open file locked; when that cannot be found out, yes."""
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
    """Lock a folder itself, so that no lock file stays in it; returns a descriptor, to be closed.

    Raises
    ------
    BusyError
        If another has it locked, and ``wait`` is False.
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
def guarded(path: Path, wait_s: float) -> Iterator[int]:
    """Hold a lock file alone; it is made if missing and stays there. Yields its descriptor.

    Raises
    ------
    BusyError
        If another holds it all that time.
    ResourceError
        If the file system has no locks.
    """
    with _locked(path, os.O_RDWR | os.O_CREAT, shared=False, wait_s=wait_s) as descriptor:
        yield descriptor


@contextmanager
def looked_through(path: Path) -> Iterator[int]:
    """Hold an existing lock file together with others that only look; no waiting, no right to write needed."""
    with _locked(path, os.O_RDONLY, shared=True, wait_s=0.0) as descriptor:
        yield descriptor


@contextmanager
def _locked(path: Path, flags: int, *, shared: bool, wait_s: float) -> Iterator[int]:
    deadline = time.monotonic() + wait_s
    while (descriptor := _try_to_lock(path, flags, shared=shared)) is None:
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
            _unlock(descriptor)
        finally:
            os.close(descriptor)


def _try_to_lock(path: Path, flags: int, *, shared: bool) -> int | None:
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    try:
        with naming(path):
            # Somebody may have removed the file: then the next one to come locks another.
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
