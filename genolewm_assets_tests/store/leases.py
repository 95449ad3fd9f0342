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

from genolewm_assets.store import lock_record
from genolewm_assets.store.lease import GUARD, WriterLease
from genolewm_assets.store.lock_record import RECORD, LeaseOwner
from genolewm_assets_tests.crash.killing import start

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
