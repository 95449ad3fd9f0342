"""One writer at a time at a location: a lock that names its owner, and that its owner knows when it has lost it.

::

    <folder>/lock                    flocked for the moments in which one of the other two is judged or changed
    <folder>/lock.json               the record: who owns the lock; modified when it is renewed
    <folder>/displaced.<mark>.json   the record of a former owner that may still be alive

A dead owner's lock is taken at once where its death can be seen, and otherwise once it has not been renewed for long
enough (``lock_record.py``). An owner that was passed over by mistake, because its machine was asleep or cut off, finds
another's token in the record when it wants to publish, and publishes nothing.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from genolewm_assets.errors import BusyError, GenoLeWMError, ResourceError
from genolewm_assets.store.files import naming
from genolewm_assets.store.locks.guard import flock, guarded, looked_through
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

_POLL_S = 0.05
# The guard is held for moments: one look at the record is worth a short wait for it, a finished build a long one.
_LOOK_S, _PUBLISH_S = 1.0, 60.0


class WriterLease:
    """The lock of one location; leaving it as a context manager releases it.

    Parameters
    ----------
    folder
        An existing folder for the lock's files, on the file system of what is locked.
    where
        What error messages call the location.
    """

    def __init__(self, folder: Path, where: str) -> None:
        self._folder, self._where = folder, where
        self._hold: _Hold | None = None

    @property
    def owner(self) -> LeaseOwner | None:
        """How the record names this process; None while the lock is not held."""
        return None if self._hold is None else self._hold.owner

    def acquire(self, wait_s: float) -> Self:
        """Take the lock.

        Raises
        ------
        BusyError
            If another holds it all that time; it is named.
        ResourceError
            If something is in the way of the lock's files, or the file system has no locks.
        OSError
            If the record cannot be written; the lock is free then.
        """
        assert self._hold is None, "acquired twice"
        deadline = time.monotonic() + wait_s
        while (holder := self._try_to_acquire(deadline)) is not None:
            if time.monotonic() >= deadline:
                raise _busy(self._where, holder.owner, wait_s)
            time.sleep(_POLL_S)
        return self

    def _try_to_acquire(self, deadline: float) -> FoundRecord | None:
        """Take the lock unless somebody holds it, who is returned then."""
        record = self._folder / RECORD
        try:
            with guarded(self._folder / GUARD, max(_LOOK_S, deadline - time.monotonic())) as guard:
                found = find_record(record, lambda: _now_s(guard))
                if found is None or found.standing is not Standing.HOLDS:
                    self._hold = _take(self._folder, found)
                    return None
                return found
        except BusyError:
            # Whoever has the guard for so long is publishing, or removing what nobody needs.
            # Not judged: looking whether a record is flocked would keep its owner from doing that just now.
            return FoundRecord(read_owner(record), Standing.HOLDS, time.time())

    def release(self) -> None:
        """Give the lock back; nothing happens if it is not held, was lost, or is that of the process forked from.

        Raises
        ------
        ResourceError
            If the record cannot be removed. It is void all the same.
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
        """Raise :class:`BusyError` if the lock is not, or no longer, this process's.

        What must not happen after it was lost belongs inside :meth:`fenced`.
        """
        if self._hold is None or self._hold.pid != os.getpid():
            raise BusyError(self._where, "this process does not hold the lock", remedy="Acquire it in this process")
        owner = read_owner(self._folder / RECORD)
        if owner != self._hold.owner:
            taker = "its record is gone" if owner is None else f"it went to {owner}"
            raise BusyError(
                self._where,
                f"this process lost the lock while it was not heard of ({taker}); nothing was published",
                remedy="Run this again",
            )

    @contextmanager
    def fenced(self) -> Iterator[None]:
        """Keep the lock from changing hands inside; raises as :meth:`check_held`. Short, and never one in another."""
        if not self._folder.is_dir():
            self.check_held()
        with guarded(self._folder / GUARD, _PUBLISH_S):
            self.check_held()
            yield

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.release()
        except OSError:
            # The first error is the one that matters; a record that stays is void once this process has ended.
            if error is None:
                raise


@contextmanager
def while_free(folder: Path, where: str) -> Iterator[None]:
    """Keep others from acquiring a lock that nobody holds: for moments, and also where the disk is full.

    Raises
    ------
    BusyError
        If somebody holds it.
    """
    with guarded(folder / GUARD, _LOOK_S) as guard:
        found = find_record(folder / RECORD, lambda: _now_s(guard))
        if found is not None and found.standing is Standing.HOLDS:
            raise _busy(where, found.owner, 0.0)
        yield


def is_held(folder: Path) -> bool:
    """Tell whether somebody holds the lock of a folder; when that cannot be found out, yes."""
    try:
        with looked_through(folder / GUARD) as guard:
            found = find_record(folder / RECORD, lambda: _now_s(guard))
    except FileNotFoundError:
        # A record without the lock file that judging it needs is no lock that is known to be free.
        return os.path.lexists(folder / RECORD)
    except OSError:
        return True
    return found is not None and found.standing is Standing.HOLDS


@dataclass(frozen=True, slots=True)
class _Hold:
    """What a process keeps while it holds a lock.

    Attributes
    ----------
    descriptor
        The record, open: renewing it can touch nobody else's, and its flock ends with the process.
    pid
        The process that acquired; one forked from it is another.
    """

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
                # Refused once, it may succeed the next time; whether the lock was lost is asked before publishing.
                with suppress(OSError):
                    os.utime(self.descriptor)


def _take(folder: Path, found: FoundRecord | None) -> _Hold:
    """Write the record in place of one that is void; the caller has the guard."""
    record = folder / RECORD
    if found is not None and found.standing is Standing.EXPIRED:
        os.rename(record, displaced_record(folder, found.owner))  # noqa: PTH104
    owner, descriptor = LeaseOwner.of_this_process(), None
    scratch = folder / f".{RECORD}.{owner.mark[:8]}.tmp"
    try:
        with naming(record), scratch.open("xb") as handle:
            handle.write(owner.to_bytes())
            handle.flush()
            # A record torn by a power cut would name nobody, whose work directories nobody could continue.
            os.fsync(handle.fileno())
        os.rename(scratch, record)  # noqa: PTH104 - the crash tests kill at the functions of `os`
        descriptor = os.open(record, os.O_RDWR | os.O_NOFOLLOW)
        with naming(record):
            flock(descriptor, wait=True)  # at most a look of another's is waited for
        hold = _Hold(owner, descriptor)
        HELD.add(owner.token)
        threading.Thread(target=hold.keep_renewing, name=f"lease of {folder.name}", daemon=True).start()
    except BaseException:
        HELD.discard(owner.token)
        for path in (scratch, record):
            path.unlink(missing_ok=True)
        if descriptor is not None:
            os.close(descriptor)
        raise
    return hold


def _now_s(guard: int) -> float:
    """Return the time by the file system's clock; by this machine's, where the file system may not be written."""
    with suppress(OSError):
        os.utime(guard)
        return os.fstat(guard).st_mtime
    return time.time()


def _busy(where: str, owner: LeaseOwner | None, wait_s: float) -> BusyError:
    remedy = "Wait for it to finish, or stop it, and run this again"
    if owner is not None and owner.boot_id != boot_id():
        remedy += f"; it is passed over once it has not renewed its lock for {LEASE_S:g} s"
    name = "" if owner is None else f" ({owner})"
    return BusyError(
        where, f"another process{name} has been building this for the {wait_s:g} s that were waited", remedy=remedy
    )
