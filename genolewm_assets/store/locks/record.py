"""The record of a lock: who owns it, and what can be known of that owner now.

On one machine the owner's process decides. From another one nobody can tell, so an owner renews its record every
``RENEW_S`` and is passed over ``LEASE_S`` after the last time. Both times that are compared are the file system's own,
so clocks of machines may differ (where the server stamps files; SMB clients stamp them by their own clocks).
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from genolewm_assets.errors import ResourceError
from genolewm_assets.store.locks.guard import is_flocked
from genolewm_assets.store.locks.processes import boot_id, is_same_process, pid_namespace, started_ticks

RECORD = "lock.json"
#: Seconds between renewals, and seconds without one after which another machine takes the lock.
RENEW_S, LEASE_S = 10.0, 60.0

#: Tokens of the locks that this process holds.
HELD: set[str] = set()

_DISPLACED = "displaced"
_SCHEMA, _MAJOR = "genolewm.lock", "1"
_TOKEN = re.compile(r"[0-9a-f]{32}")
_MAX_BYTES, _MAX_TEXT, _MAX_PID = 1 << 16, 255, (1 << 31) - 1


class Standing(StrEnum):
    """What is known of an owner: it holds the lock; or has not renewed it, but may be alive; or is dead for certain."""

    HOLDS = "holds"
    EXPIRED = "expired"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class LeaseOwner:
    """Who holds a lock.

    Attributes
    ----------
    started_ticks
        When the process began, in clock ticks since its machine was started; None where that cannot be read.
    token
        32 random hex digits, new for every acquisition.
    since
        Time of the acquisition by the owner's clock, ISO 8601 in UTC.
    """

    host: str
    boot_id: str
    pid_namespace: str
    pid: int
    started_ticks: int | None
    token: str
    since: str

    @classmethod
    def of_this_process(cls) -> LeaseOwner:
        """Return this process, with a new token."""
        pid, since = os.getpid(), datetime.now(UTC).isoformat(timespec="seconds")
        machine = (os.uname().nodename, boot_id(), pid_namespace())
        return cls(*machine, pid, started_ticks(pid), secrets.token_hex(16), since)

    @property
    def mark(self) -> str:
        """What names of files and directories carry that are this owner's."""
        return self.token[:16]

    def to_bytes(self) -> bytes:
        """Return the record."""
        return json.dumps({"schema": _SCHEMA, "schema_version": f"{_MAJOR}.0", **asdict(self)}, indent=1).encode()

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since}"


@dataclass(frozen=True, slots=True)
class FoundRecord:
    """A record that was found.

    Attributes
    ----------
    owner
        None where the record cannot be understood: its owner is somebody on another machine, for all that is known.
    renewed_s
        When it was last renewed, in seconds since the epoch, by the file system's clock.
    """

    owner: LeaseOwner | None
    standing: Standing
    renewed_s: float


def find_record(path: Path, now: Callable[[], float]) -> FoundRecord | None:
    """Read and judge a record; None where there is none.

    Parameters
    ----------
    now
        Returns the time by the file system's clock; called only where the owner's process cannot be looked at.

    Raises
    ------
    ResourceError
        If something that is no file stands there.
    """
    if (descriptor := _open(path)) is None:
        return None
    try:
        renewed_s, raw = os.fstat(descriptor).st_mtime, os.read(descriptor, _MAX_BYTES)
        owner = _parse(raw)
        # Records appear whole. One without content was not on disk yet when its owner's machine lost power.
        standing = _standing_here(owner, descriptor) if raw.strip(b"\0") else Standing.DEAD
        if standing is None:
            standing = _standing_elsewhere(owner, _silence_s(descriptor, renewed_s, now()))
        return FoundRecord(owner, standing, renewed_s)
    finally:
        os.close(descriptor)


def read_owner(path: Path) -> LeaseOwner | None:
    """Return the owner that a record names; None where there is no record that can be understood."""
    if (descriptor := _open(path)) is None:
        return None
    try:
        return _parse(os.read(descriptor, _MAX_BYTES))
    finally:
        os.close(descriptor)


def _open(path: Path) -> int | None:
    check_clear(path)
    try:
        # Opening asks a network file system for the present state, which looking at the name need not.
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None


def check_clear(path: Path) -> None:
    """Raise :class:`ResourceError` if anything but a file stands where a file of a lock belongs."""
    if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):
        raise ResourceError(str(path), "is in the way of a lock", remedy="Remove it and run this again")


def displaced_record(folder: Path, owner: LeaseOwner | None) -> Path:
    """Return where the record goes of an owner that loses its lock and may be alive."""
    return folder / f"{_DISPLACED}.{owner.mark if owner else secrets.token_hex(8)}.json"


def find_displaced(folder: Path, now: Callable[[], float]) -> dict[Path, FoundRecord]:
    """Return the records of owners that lost the lock of a folder."""
    found = {path: find_record(path, now) for path in sorted(folder.glob(f"{_DISPLACED}.*.json"))}
    return {path: record for path, record in found.items() if record is not None}


def _parse(raw: bytes) -> LeaseOwner | None:
    """Return the owner that a record names; None for anything but a record that this code understands."""
    try:
        document = json.loads(raw)
        if (document["schema"], document["schema_version"].partition(".")[0]) != (_SCHEMA, _MAJOR):
            return None
        texts = [document[name] for name in ("host", "boot_id", "pid_namespace", "token", "since")]
        pid, ticks = document["pid"], document["started_ticks"]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    # Held to the letter: the token becomes part of file names, the number is handed to kill(2).
    fits = all(_is_text(text) for text in texts) and _TOKEN.fullmatch(texts[3]) is not None
    fits = fits and _is_number(pid, 1, _MAX_PID) and (ticks is None or _is_number(ticks, 0, 1 << 63))
    return LeaseOwner(texts[0], texts[1], texts[2], pid, ticks, texts[3], texts[4]) if fits else None


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable() and len(value) <= _MAX_TEXT


def _is_number(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _standing_here(owner: LeaseOwner | None, descriptor: int) -> Standing | None:
    """Judge an owner on this machine by its process; None for one elsewhere."""
    if owner is None or not owner.boot_id or owner.boot_id != boot_id():
        return None
    if (owner.host, owner.pid_namespace) == (os.uname().nodename, pid_namespace()):
        # A living process does not hold it either whose disk failed when the record was to be removed.
        held = owner.token in HELD if owner.pid == os.getpid() else is_flocked(descriptor)
        alive = held and is_same_process(owner.pid, owner.started_ticks)
    else:
        # In another container on this kernel: its numbers say nothing here, but the lock it keeps on its record does.
        alive = is_flocked(descriptor)
    return Standing.HOLDS if alive else Standing.DEAD


def _standing_elsewhere(owner: LeaseOwner | None, silence_s: float) -> Standing:
    if silence_s <= LEASE_S:
        return Standing.HOLDS
    # A machine of this name that has been started since took its processes with it.
    rebooted = owner is not None and owner.host == os.uname().nodename and owner.boot_id and boot_id()
    return Standing.DEAD if rebooted else Standing.EXPIRED


def _silence_s(descriptor: int, renewed_s: float, now_s: float) -> float:
    """Return for how long a record has not been renewed."""
    if now_s - renewed_s < -RENEW_S:
        # The clock was set back. From now on the record grows old, unless its owner renews it.
        os.utime(descriptor)
        return 0.0
    return now_s - renewed_s
