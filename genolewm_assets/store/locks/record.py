"""The record of a lock (``lock.json``): the owner of the lock, and whether the owner still holds it.

On one machine, the lock is free when the owner's process has ended. Another machine cannot see the process, so the
owner renews its record every ``RENEW_S``, and ``LEASE_S`` after the last renewal the lock may be taken. Both times come
from the clock of the file system, so the file server must set modification times (NFS does, an SMB client does not).
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
from genolewm_assets.store.locks.processes import boot_id, is_same_process, machine_id, pid_namespace, started_ticks

RECORD = "lock.json"
#: Seconds between renewals, and seconds without renewal after which another machine may take the lock.
RENEW_S, LEASE_S = 10.0, 60.0

#: Tokens of the locks that this process holds now.
HELD: set[str] = set()

_DISPLACED = "displaced"
_SCHEMA, _MAJOR = "genolewm.lock", "1"
_TOKEN = re.compile(r"[0-9a-f]{32}")
_MAX_BYTES, _MAX_TEXT, _MAX_PID = 1 << 16, 255, (1 << 31) - 1


class Standing(StrEnum):
    """State of an owner: it holds the lock, has not renewed it in time but may run, or has certainly ended."""

    HOLDS = "holds"
    EXPIRED = "expired"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class LeaseOwner:
    """The process that owns a lock.

    Attributes
    ----------
    boot_id, pid_namespace, machine_id
        See the functions of these names; empty if unknown.
    started_ticks
        Start time of the process in clock ticks since boot; None if it could not be read.
    token
        32 random hexadecimal digits, new for every acquisition.
    since
        Time of the acquisition by the owner's clock, ISO 8601, UTC.
    note
        What the owner does, for messages: at most 255 printable characters; may be empty.
    device
        Device number of the lock's folder as the owner sees it (``st_dev``); None if unknown. On one kernel, processes
        with different numbers use different mounts, which may not share their flocks.
    """

    host: str
    boot_id: str
    pid_namespace: str
    pid: int
    started_ticks: int | None
    token: str
    since: str
    note: str = ""
    machine_id: str = ""
    device: int | None = None

    @classmethod
    def of_this_process(cls, note: str = "", device: int | None = None) -> LeaseOwner:
        """Return this process as an owner, with a new token."""
        pid, since = os.getpid(), datetime.now(UTC).isoformat(timespec="seconds")
        machine = (os.uname().nodename, boot_id(), pid_namespace())
        return cls(*machine, pid, started_ticks(pid), secrets.token_hex(16), since, note, machine_id(), device)

    def is_here(self) -> bool:
        """Tell whether the process is, or was, one of this machine since its start, and its id is one of ours."""
        return (self.host, self.boot_id, self.pid_namespace) == (os.uname().nodename, boot_id(), pid_namespace())

    @property
    def mark(self) -> str:
        """First 16 digits of the token, part of the names of this owner's files and directories."""
        return self.token[:16]

    def to_bytes(self) -> bytes:
        """Return the content of the record: JSON, UTF-8."""
        return json.dumps({"schema": _SCHEMA, "schema_version": f"{_MAJOR}.0", **asdict(self)}, indent=1).encode()

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since}"


@dataclass(frozen=True, slots=True)
class FoundRecord:
    """A record that was read, and the state of its owner.

    Attributes
    ----------
    owner
        None if the record cannot be parsed; its owner is then treated as one on another machine.
    renewed_s
        Time of the last renewal, in seconds since the epoch, by the clock of the file system.
    """

    owner: LeaseOwner | None
    standing: Standing
    renewed_s: float


def find_record(path: Path, now: Callable[[], float]) -> FoundRecord | None:
    """Read a record and find out the state of its owner; None if the record does not exist.

    Parameters
    ----------
    now
        Returns the time by the clock of the file system, in seconds since the epoch. Called only if the owner's
        process cannot be examined from this machine.

    Raises
    ------
    ResourceError
        If the path is a symlink or not a regular file.
    """
    if (descriptor := _open(path)) is None:
        return None
    try:
        renewed_s, raw = os.fstat(descriptor).st_mtime, os.read(descriptor, _MAX_BYTES)
        owner = _parse(raw)
        # Records are written atomically. An empty one means that the owner's machine lost power before the sync.
        standing = _standing_here(owner, descriptor) if raw.strip(b"\0") else Standing.DEAD
        if standing is None:
            standing = _standing_elsewhere(owner, descriptor, _silence_s(descriptor, renewed_s, now()))
        return FoundRecord(owner, standing, renewed_s)
    finally:
        os.close(descriptor)


def read_owner(path: Path) -> LeaseOwner | None:
    """Return the owner named in a record; None if the record is missing or cannot be parsed."""
    if (descriptor := _open(path)) is None:
        return None
    try:
        return _parse(os.read(descriptor, _MAX_BYTES))
    finally:
        os.close(descriptor)


def _open(path: Path) -> int | None:
    check_clear(path)
    try:
        # On a network file system, open() refreshes cached attributes; stat() may return old ones.
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None


def check_clear(path: Path) -> None:
    """Raise :class:`ResourceError` if a lock file's path exists and is not a regular file."""
    if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):
        raise ResourceError(str(path), "is in the place of a lock file", remedy="Remove it and run this again")


def displaced_record(folder: Path, owner: LeaseOwner | None) -> Path:
    """Return the path to which the record of an owner moves if it loses its lock and may still run."""
    return folder / f"{_DISPLACED}.{owner.mark if owner else secrets.token_hex(8)}.json"


def find_displaced(folder: Path, now: Callable[[], float]) -> dict[Path, FoundRecord]:
    """Return the records of owners that lost the lock of a folder, by path."""
    found = {path: find_record(path, now) for path in sorted(folder.glob(f"{_DISPLACED}.*.json"))}
    return {path: record for path, record in found.items() if record is not None}


def _parse(raw: bytes) -> LeaseOwner | None:
    """Return the owner named in the bytes of a record; None if they are not a valid record of this major version."""
    try:
        document = json.loads(raw)
        if (document["schema"], document["schema_version"].partition(".")[0]) != (_SCHEMA, _MAJOR):
            return None
        texts = [document[name] for name in ("host", "boot_id", "pid_namespace", "token", "since")]
        texts += [document.get(name, "") for name in ("note", "machine_id")]
        pid, ticks, device = document["pid"], document["started_ticks"], document.get("device")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    # Validated strictly: the token becomes part of file names, and the process id is passed to kill(2).
    fits = all(_is_text(text) for text in texts) and _TOKEN.fullmatch(texts[3]) is not None
    fits = fits and _is_number(pid, 1, _MAX_PID)
    fits = fits and all(number is None or _is_number(number, 0, 1 << 64) for number in (ticks, device))
    host, boot, namespace, token, since, note, machine = texts
    return LeaseOwner(host, boot, namespace, pid, ticks, token, since, note, machine, device) if fits else None


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable() and len(value) <= _MAX_TEXT


def _is_number(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _standing_here(owner: LeaseOwner | None, descriptor: int) -> Standing | None:
    """Return the state of an owner on this kernel, judged by its process or flock; None if neither can be examined."""
    if owner is None or not owner.boot_id or owner.boot_id != boot_id():
        return None
    one_mount = owner.device in {None, os.fstat(descriptor).st_dev}
    if (owner.host, owner.pid_namespace) == (os.uname().nodename, pid_namespace()):
        # A process may have released the lock without being able to remove its record (disk failure).
        own = owner.pid == os.getpid()
        held = owner.token in HELD if own else is_flocked(descriptor) or not one_mount
        alive = held and is_same_process(owner.pid, owner.started_ticks)
    elif one_mount:
        # The owner is in another container on this kernel: its process id means nothing here, its flock does.
        alive = is_flocked(descriptor)
    else:
        # Another container with a mount of its own: a flock that is not seen here may be held there.
        return None
    return Standing.HOLDS if alive else Standing.DEAD


def _standing_elsewhere(owner: LeaseOwner | None, descriptor: int, silence_s: float) -> Standing:
    if silence_s <= LEASE_S:
        return Standing.HOLDS
    restarted = owner is not None and _is_this_machine_before(owner) and not is_flocked(descriptor)
    return Standing.DEAD if restarted else Standing.EXPIRED


def _is_this_machine_before(owner: LeaseOwner) -> bool:
    """Return whether an owner ran on this machine before its last restart; a host name alone does not tell."""
    known = owner.host == os.uname().nodename and bool(owner.machine_id) and owner.machine_id == machine_id()
    return known and bool(owner.boot_id and boot_id()) and owner.boot_id != boot_id()


def _silence_s(descriptor: int, renewed_s: float, now_s: float) -> float:
    """Return the seconds since the last renewal of a record."""
    if now_s - renewed_s < -RENEW_S:
        # The clock was set back: restart the count now, so that the record can expire.
        os.utime(descriptor)
        return 0.0
    return now_s - renewed_s
