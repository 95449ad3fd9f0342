"""Owners of locks for the tests: live processes, and records as other machines would have written them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from genolewm_assets.errors import BusyError
from genolewm_assets.store.locks import record as lock_record
from genolewm_assets.store.locks.lease import GUARD, WriterLease, is_held, while_free
from genolewm_assets.store.locks.record import RECORD, LeaseOwner
from genolewm_assets_tests.faults.killing import start

OTHER_BOOT = "00000000-1111-2222-3333-444444444444"


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.002)


def foreign_owner(*, host: str = "elsewhere", boot_id: str = OTHER_BOOT) -> LeaseOwner:
    """An owner on another machine; its process id is one that lives here."""
    return replace(LeaseOwner.of_this_process(), host=host, boot_id=boot_id)


def write_record(folder: Path, owner: LeaseOwner | bytes, *, silent_s: float = 0.0) -> Path:
    """Leave a record as if its owner had renewed it so many seconds ago."""
    (folder / GUARD).touch()
    path = folder / RECORD
    path.write_bytes(owner if isinstance(owner, bytes) else owner.to_bytes())
    silence(path, silent_s)
    return path


def silence(record: Path, silent_s: float) -> None:
    stamp = time.time() - silent_s
    os.utime(record, (stamp, stamp))


def pretend_elsewhere(host: str = "elsewhere") -> None:
    """Make this process one of another machine, as far as its locks say; for child processes."""
    patch = pytest.MonkeyPatch()
    patch.setattr(lock_record, "boot_id", lambda: OTHER_BOOT)
    patch.setattr(os, "uname", lambda: os.uname_result(("Linux", host, "", "", "")))


@contextmanager
def holding(folder: Path, flags: Path, *, before: Callable[[], None] = lambda: None) -> Iterator[int]:
    """Yield the id of a process that holds a lock until the end of the block; it is killed if it is there then."""
    acquired, enough = flags / "acquired", flags / "enough"

    def hold() -> None:
        before()
        with WriterLease(folder, "here").acquire(0):
            acquired.touch()
            wait_for(enough)

    child = start(hold)
    try:
        wait_for(acquired)
        yield child
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(child, 0)
        acquired.unlink(missing_ok=True)


def lease_of(folder: Path) -> WriterLease:
    return WriterLease(folder, "here")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def check_free(folder: Path) -> None:
    """A lock that can be taken at once, and leaves nothing when it is released."""
    assert not is_held(folder)
    with lease_of(folder).acquire(0):
        assert is_held(folder)
    assert names(folder) == [GUARD]


def check_busy(folder: Path, match: str = "here: another process") -> None:
    assert is_held(folder)
    before = (folder / RECORD).read_bytes()
    with pytest.raises(BusyError, match=match):
        lease_of(folder).acquire(0)
    with pytest.raises(BusyError, match=match), while_free(folder, "here"):
        pass
    assert (folder / RECORD).read_bytes() == before
