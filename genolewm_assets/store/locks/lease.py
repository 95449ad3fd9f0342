"""A lock of one location that names its owner; the owner can tell whether it still holds it.

::

    <folder>/lock                    the guard: flocked briefly while one of the other two is read or changed
    <folder>/lock.json               the record: names the owner; its modification time is the last renewal
    <folder>/displaced.<mark>.json   the record of a former owner that may still run

An owner whose lock was taken while its machine was asleep or cut off sees another token when it publishes, and aborts.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from genolewm_assets.errors import BusyError, GenoLeWMError, ResourceError
from genolewm_assets.store.files import naming
from genolewm_assets.store.locks.guard import flock, guarded
from genolewm_assets.store.locks.processes import boot_id
from genolewm_assets.store.locks.record import (
    HELD,
    LEASE_S,
    RECORD,
    RENEW_S,
    FoundRecord,
    LeaseOwner,
    Standing,
    displaced_record,
    find_record,
    read_owner,
)

GUARD = "lock"
# Error numbers of link(2) on a file system without hard links.
_NO_LINKS = frozenset({errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK, errno.EINVAL})

_POLL_S = 0.05
# Seconds to wait for the guard, which is held only briefly: to read the record, and to publish or release.
_LOOK_S, _PUBLISH_S = 1.0, 60.0


class WriterLease:
    """The lock of one location; as a context manager, it is released on exit.

    Parameters
    ----------
    folder
        An existing folder for the lock's files, on the file system of the location.
    where
        Name of the location in error messages.
    note
        What the owner does, kept in the record; see :class:`LeaseOwner`.
    """

    def __init__(self, folder: Path, where: str, note: str = "") -> None:
        self._folder, self._where, self._note = folder, where, note
        self._hold: _Hold | None = None

    @property
    def owner(self) -> LeaseOwner | None:
        """The owner in the record of this lease; None while the lock is not held."""
        return None if self._hold is None else self._hold.owner

    def acquire(self, wait_s: float) -> Self:
        """Take the lock and return this object.

        Raises
        ------
        BusyError
            If another process still holds the lock after ``wait_s``; the message names it.
        ResourceError
            If a lock file's path is not a regular file, or the file system has no locks.
        OSError
            If the record cannot be written; the lock is then free.
        """
        assert self._hold is None, "acquired twice"
        deadline = time.monotonic() + wait_s
        while (holder := self._try_to_acquire(deadline)) is not None:
            if time.monotonic() >= deadline:
                raise _busy(self._where, holder.owner, wait_s)
            time.sleep(_POLL_S)
        return self

    def _try_to_acquire(self, deadline: float) -> FoundRecord | None:
        """Take the lock and return None; if it is held, return the record of its owner."""
        record = self._folder / RECORD
        try:
            with guarded(self._folder / GUARD, max(_LOOK_S, deadline - time.monotonic())) as guard:
                found = find_record(record, lambda: _now_s(guard))
                if found is None or found.standing is not Standing.HOLDS:
                    self._hold = _take(self._folder, found, self._note)
                    return None
                return found
        except (FileExistsError, BusyError):
            # A network file system showed an old state of the folder, in which there is a record; or a process that
            # holds the guard so long is publishing or removing files. The record is only read: testing its flock would
            # briefly take that lock.
            return FoundRecord(read_owner(record), Standing.HOLDS, time.time())

    def release(self) -> None:
        """Release the lock; without effect if it is not held, was lost, or belongs to the parent of a forked process.

        Raises
        ------
        ResourceError
            If the record cannot be removed; the lock is free nevertheless.
        """
        hold, self._hold = self._hold, None
        if hold is None or hold.pid != os.getpid():
            return
        hold.stopped.set()
        HELD.discard(hold.owner.token)
        try:
            with suppress(FileNotFoundError), guarded(self._folder / GUARD, _PUBLISH_S):
                own = read_owner(self._folder / RECORD) == hold.owner
                (self._folder / RECORD if own else displaced_record(self._folder, hold.owner)).unlink(missing_ok=True)
        except GenoLeWMError:
            raise
        except OSError as err:
            raise ResourceError(
                self._where,
                f"the record of its lock could not be removed ({err.strerror})",
                remedy=f"Check the disk of {self._folder}; the lock is free",
            ) from err
        finally:
            with hold.renewing:
                os.close(hold.descriptor)

    def check_held(self) -> None:
        """Raise :class:`BusyError` if this process does not hold the lock, or has lost it.

        The lock can be lost right after this check; a publication therefore runs inside :meth:`fenced`.
        """
        if self._hold is None or self._hold.pid != os.getpid():
            raise BusyError(self._where, "this process does not hold the lock", remedy="Acquire it in this process")
        owner = read_owner(self._folder / RECORD)
        if owner != self._hold.owner:
            taker = "its record is gone" if owner is None else f"{owner} holds it now"
            raise BusyError(
                self._where,
                f"this process lost the lock because it did not renew it in time ({taker}); nothing was published",
                remedy="Run this again",
            )

    @contextmanager
    def fenced(self) -> Iterator[None]:
        """Verify that this process holds the lock, and keep others from taking it until the block ends.

        Raises as :meth:`check_held`. Keep the block short, and do not nest it.
        """
        if not self._folder.is_dir():
            self.check_held()
        with guarded(self._folder / GUARD, _PUBLISH_S):
            self.check_held()
            yield

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.release()
        except OSError:
            # The error raised inside matters more. A record that remains is void, because its flock is released.
            if kind is None:
                raise


@contextmanager
def while_free(folder: Path, where: str) -> Iterator[None]:
    """Keep other processes from acquiring a free lock while the block runs. Keep the block short.

    No file is written, so this also works on a full disk.

    Raises
    ------
    BusyError
        If a process holds the lock.
    """
    with guarded(folder / GUARD, _LOOK_S) as guard:
        found = find_record(folder / RECORD, lambda: _now_s(guard))
        if found is not None and found.standing is Standing.HOLDS:
            raise _busy(where, found.owner, 0.0)
        yield


def is_held(folder: Path) -> bool:
    """Return whether a process holds the lock of a folder; True if that cannot be found out."""
    try:
        with guarded(folder / GUARD, 0.0, shared=True) as guard:
            found = find_record(folder / RECORD, lambda: _now_s(guard))
    except FileNotFoundError:
        # Without the guard the record cannot be judged, so an existing record counts as held.
        return os.path.lexists(folder / RECORD)
    except OSError:
        return True
    return found is not None and found.standing is Standing.HOLDS


@dataclass(frozen=True, slots=True)
class _Hold:
    """State of a held lock, with the thread that renews it through the descriptor of the open, flocked record."""

    owner: LeaseOwner
    descriptor: int
    pid: int = field(default_factory=os.getpid)
    stopped: threading.Event = field(default_factory=threading.Event)
    renewing: threading.Lock = field(default_factory=threading.Lock)

    def keep_renewing(self) -> None:
        while not self.stopped.wait(RENEW_S):
            with self.renewing:
                if self.stopped.is_set():
                    return
                # A failed renewal is retried; loss of the lock is detected before publication.
                with suppress(OSError):
                    os.utime(self.descriptor)


def _take(folder: Path, found: FoundRecord | None, note: str) -> _Hold:
    """Write the record in place of a void one; the caller holds the guard.

    Raises :class:`FileExistsError` if there was none and the file server has one all the same.
    """
    record = folder / RECORD
    if found is not None and found.standing is Standing.EXPIRED:
        os.rename(record, displaced_record(folder, found.owner))  # noqa: PTH104
    owner, descriptor = LeaseOwner.of_this_process(note, folder.stat().st_dev), None
    scratch = folder / f".{RECORD}.{owner.mark[:8]}.tmp"
    try:
        with naming(record), scratch.open("xb") as handle:
            handle.write(owner.to_bytes())
            handle.flush()
            # Without the sync a power cut could leave an empty record, which names no owner of the work directories.
            os.fsync(handle.fileno())
        _put_in_place(scratch, record, there=found is not None and found.standing is Standing.DEAD)
        descriptor = os.open(record, os.O_RDWR | os.O_NOFOLLOW)
        with naming(record):
            flock(descriptor, wait=True)  # waits at most while another process tests the flock
        hold = _Hold(owner, descriptor)
        HELD.add(owner.token)
        threading.Thread(target=hold.keep_renewing, name=f"lease of {folder.name}", daemon=True).start()
    except BaseException as err:
        HELD.discard(owner.token)
        for path in (scratch, *([] if isinstance(err, FileExistsError) else [record])):
            path.unlink(missing_ok=True)
        if descriptor is not None:
            os.close(descriptor)
        raise
    return hold


def _put_in_place(scratch: Path, record: Path, *, there: bool) -> None:
    """Give a record its name; where none is known to be there, let the file server refuse a second one."""
    if not there:
        try:
            # A client may hold "no such name" in its cache, and rename would then replace the record of an owner.
            os.link(scratch, record)
        except OSError as err:
            if err.errno not in _NO_LINKS:
                raise
        else:
            scratch.unlink()
            return
    os.rename(scratch, record)  # noqa: PTH104 - the crash tests kill at the functions of `os`


def _now_s(guard: int) -> float:
    """Return the time by the file system's clock, in s since the epoch; by this machine's if the guard is read-only."""
    with suppress(OSError):
        os.utime(guard)
        return os.fstat(guard).st_mtime
    return time.time()


def _busy(where: str, owner: LeaseOwner | None, wait_s: float) -> BusyError:
    remedy = "Wait for it to finish, or stop it, and run this again"
    if owner is not None and owner.boot_id != boot_id():
        remedy += f"; its lock can be taken once it has not been renewed for {LEASE_S:g} s"
    name = "" if owner is None else f" ({owner})"
    return BusyError(where, f"another process{name} still holds the lock after {wait_s:g} s of waiting", remedy=remedy)
