"""What one machine changes in a shared folder, and how another one looks at it: a :class:`Look` per kind of change."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from genolewm_assets.store.files import publish_generation, resolve_generation, write_atomic
from genolewm_assets.store.locks import LEASE_S, RENEW_S

#: Remedy for names and listings that come from a cache.
NAMES = (
    "Mount it with a short cache of names: NFS lookupcache=none,acdirmin=0,acdirmax=1; FUSE entry_timeout=0,"
    "negative_timeout=0,attr_timeout=0"
)
#: Remedy for contents and times that come from a cache.
CONTENTS = "Mount it with a short cache of attributes: NFS actimeo=1 or noac; FUSE attr_timeout=0, without kernel_cache"

_OLD, _NEW = b"old\n", b"new\n"


@dataclass(frozen=True, slots=True)
class Look:
    """One kind of change, made by one run and looked for by the other.

    Attributes
    ----------
    name
        What must be seen.
    prepare
        Makes the state before the change in an empty folder; runs on the machine of the change.
    change
        Makes the change.
    look
        Runs on the other machine, also before the change, which fills its caches; returns whether it sees the change,
        or raises OSError.
    remedy
        What to do where the change is not seen, or late.
    soon_s
        Seconds after which the change is late.
    """

    name: str
    prepare: Callable[[Path], object]
    change: Callable[[Path], object]
    look: Callable[[Path], bool]
    remedy: str
    soon_s: float = 5.0

    def sees(self, folder: Path) -> bool:
        """Return whether the change is seen now."""
        with suppress(OSError):
            return self.look(folder)
        return False

    def seconds_until_seen(self, folder: Path, limit_s: float) -> float | None:
        """Look until the change is seen; return the seconds it took, or None after ``limit_s``."""
        began = time.monotonic()
        while not self.sees(folder):
            if time.monotonic() - began > limit_s:
                return None
            time.sleep(0.02)
        return time.monotonic() - began


def _nothing(_: Path) -> None:
    pass


def _append(folder: Path) -> None:
    with (folder / "log").open("ab") as handle:
        handle.write(_NEW)
        handle.flush()
        os.fsync(handle.fileno())


def _publish(folder: Path, version: bytes) -> None:
    """Publish a folder with one file as a build does."""
    work = folder / "work"
    work.mkdir()
    (work / "file").write_bytes(version)
    publish_generation(work, folder / "link", hashlib.sha256(version).hexdigest()[:12], fenced=nullcontext)


def _renew(folder: Path, renewed_s: float | None) -> None:
    with (folder / "record").open("ab") as handle:
        os.utime(handle.fileno(), None if renewed_s is None else (renewed_s, renewed_s))


def _is_renewed(folder: Path) -> bool:
    with (folder / "record").open("rb") as handle:
        return os.fstat(handle.fileno()).st_mtime > 1.0


LOOKS = (
    Look(
        "new bytes of a replaced file",
        lambda folder: write_atomic(folder / "file", _OLD),
        lambda folder: write_atomic(folder / "file", _NEW),
        lambda folder: (folder / "file").read_bytes() == _NEW,
        NAMES,
    ),
    Look(
        "a new name",
        _nothing,
        lambda folder: write_atomic(folder / "file", _NEW),
        lambda folder: (folder / "file").read_bytes() == _NEW,
        NAMES,
    ),
    Look(
        "a new entry in a listing",
        lambda folder: write_atomic(folder / "first", _NEW),
        lambda folder: write_atomic(folder / "second", _NEW),
        lambda folder: "second" in os.listdir(folder),  # noqa: PTH208
        NAMES,
    ),
    Look(
        "that a name is gone",
        lambda folder: write_atomic(folder / "file", _NEW),
        lambda folder: (folder / "file").unlink(),
        lambda folder: not os.path.lexists(folder / "file"),
        NAMES,
    ),
    Look(
        "a published folder behind its link",
        lambda folder: _publish(folder, _OLD),
        lambda folder: _publish(folder, _NEW),
        lambda folder: (resolve_generation(folder / "link") / "file").read_bytes() == _NEW,
        NAMES,
    ),
    Look(
        "appended bytes",
        lambda folder: write_atomic(folder / "log", _OLD),
        _append,
        lambda folder: (folder / "log").read_bytes() == _OLD + _NEW,
        CONTENTS,
    ),
    Look(
        "the renewal of a lock",
        lambda folder: _renew(folder, 1.0),
        lambda folder: _renew(folder, None),
        _is_renewed,
        CONTENTS,
        soon_s=LEASE_S - 2 * RENEW_S,
    ),
)
