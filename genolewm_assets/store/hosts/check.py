"""Check of a root that two machines mount: two runs meet in a folder of it, and each looks at what the other changes.

::

    <root>/work/.root-check/run.<token>.json   one per run: who it is, whom it has met, what it says
    <root>/work/.root-check/try.<token>/       what that run changes
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from genolewm_assets.errors import BusyError, GenoLeWMError, MissingResourceError
from genolewm_assets.progress import Progress
from genolewm_assets.store.artefacts import WORK, check_file_system
from genolewm_assets.store.files import publish_generation, resolve_generation, write_atomic
from genolewm_assets.store.hosts import meeting
from genolewm_assets.store.hosts.meeting import Run, joined
from genolewm_assets.store.locks import flock, guarded

# Seconds after which a change counts as never seen; that clocks, and times that files get, may differ.
_LIMIT_S, _CLOCKS_S, _STAMPS_S = 90.0, 2.0, 5.0
_LOCK_WAIT_S = 30.0
_FILES, _FILE_BYTES = 20, 1 << 16
_MACHINES = "Run the command once on each of two machines (--one-machine only tries it out)"
_CLOCK = "Let both machines follow one time server (chrony, systemd-timesyncd)"
_STAMPS = "Mount it so that the server sets modification times (NFS does, SMB does not)"
_LOCKS = (
    "Mount it with locks that all machines share: NFS 4, or NFS 3 with lockd, without nolock and local_lock; Lustre "
    "with flock; FUSE with locks forwarded to the server"
)
_NAMES = (
    "Mount it with a short cache of names: NFS lookupcache=none,acdirmin=0,acdirmax=1; FUSE entry_timeout=0,"
    "negative_timeout=0,attr_timeout=0"
)
_CONTENTS = (
    "Mount it with a short cache of attributes: NFS actimeo=1 or noac; FUSE attr_timeout=0, without kernel_cache"
)
_WHOLE = "Do not use this file system: it shows a renamed file before its content"
_OLD, _NEW = b"old\n", b"new\n"


@dataclass(frozen=True, slots=True)
class PointResult:
    """Verdict of one point: ``ok``, ``late`` (seen, but not at once) or ``failed``, and what both runs saw."""

    point: str
    verdict: str
    here: str
    there: str
    remedy: str


@dataclass(frozen=True, slots=True)
class RootCheck:
    """Result of a check: host name and mount of both runs, and the verdicts."""

    here: str
    there: str
    points: tuple[PointResult, ...]

    @property
    def passed(self) -> bool:
        """Whether every point is ``ok``."""
        return all(point.verdict == "ok" for point in self.points)


def check_root(
    folder: Path, *, wait_s: float, one_machine: bool, limit_s: float = _LIMIT_S, progress: Progress
) -> RootCheck:
    """Check with a second run on another machine whether a folder can be a root of both; leave nothing there.

    Parameters
    ----------
    folder
        An existing folder, a root or one that is to be.
    one_machine
        Accept a second run on this machine.
    limit_s
        Seconds after which a change that the other run does not see counts as never seen.

    Raises
    ------
    RootError
        If the file system lacks a feature that a root needs on one machine.
    MissingResourceError
        If the folder is missing, or no second run was seen within ``wait_s``.
    ResourceError
        If the second run ended in the middle.
    """
    if not folder.is_dir():
        raise MissingResourceError(str(folder), "no such folder", remedy="Create it, or mount it, and run this again")
    folder = folder.resolve()
    with joined(folder / WORK / ".root-check") as run:
        run.meet(wait_s, progress)
        own = run.folder / f"try.{run.token}"
        own.mkdir()
        (own / "probe").mkdir()
        check_file_system(own / "probe")
        said = run.say(mount_of(folder))
        found = _try_all(run, own, one_machine=one_machine, limit_s=limit_s)
        theirs = run.say({name: [fault, seen] for name, (fault, seen, _) in found.items()})
        run.part()
    points = []
    for name, (fault, seen, remedy) in found.items():
        verdict = max("ok", fault or "ok", theirs[name][0] or "ok", key=("ok", "late", "failed").index)
        points.append(PointResult(name, verdict, seen, theirs[name][1], "" if verdict == "ok" else remedy))
    here, there = f"{run.owner.host} ({mount_of(folder)})", f"{run.partner['owner']['host']} ({said})"
    return RootCheck(here, there, tuple(points))


#: What one run found at a point: ``failed``, ``late`` or nothing, what it saw, and what to do about a fault.
_Found = tuple[str, str, str]


def _try_all(run: Run, own: Path, *, one_machine: bool, limit_s: float) -> dict[str, _Found]:
    """Try every point in both directions at once: each run changes its own folder and looks at the other's."""
    theirs = run.folder / f"try.{run.partner['owner']['token']}"
    found: dict[str, _Found] = {"two machines": (*_are_two(run, one_machine=one_machine), _MACHINES)}
    found |= _compare_clocks(run, own)
    prepare(own)
    with guarded(own / "lock", _LOCK_WAIT_S):
        run.say(None)
        for name in LOOKS:
            sees(name, theirs)
        with (theirs / "lock").open("r+b") as shared, (theirs / "lock").open("r+b") as exclusive:
            taken = flock(shared.fileno(), shared=True) | flock(exclusive.fileno())
        run.say(None)
        change(own)
    found["renamed files are whole"] = (*_try_renames(run, own, theirs, limit_s), _WHOLE)
    began, lock = time.monotonic(), "a lock held there is refused here"
    try:
        with guarded(theirs / "lock", _LOCK_WAIT_S):
            waited_s = time.monotonic() - began
            at_once = {name for name in LOOKS if sees(name, theirs)}
            for name, (_, remedy) in LOOKS.items():
                judged = ("", "seen at once") if name in at_once else _wait_until_seen(run, name, theirs, limit_s)
                found[name] = (*judged, remedy)
    except BusyError:
        found[lock] = ("failed", f"still refused {_LOCK_WAIT_S:g} s after its release", _LOCKS)
        return {**dict.fromkeys(LOOKS, ("failed", "not tried, because the locks failed", _LOCKS)), **found}
    seen = "took a lock that is held" if taken else f"refused; taken {waited_s:.1f} s after its release"
    return {**found, lock: ("failed" if taken else "", seen, _LOCKS)}


def _try_renames(run: Run, own: Path, theirs: Path, limit_s: float) -> tuple[str, str]:
    """Read the files of the other run while it writes them; each run writes and reads in turn."""
    found, seen = "", set[str]()
    for writes in (run.token < run.partner["owner"]["token"], run.token > run.partner["owner"]["token"]):
        run.say(None)
        if writes:
            write_many(own / "many")
            continue
        began = time.monotonic()
        while not found and len(seen) < _FILES and time.monotonic() - began < limit_s:
            found = "" if read_many(theirs / "many", seen) else "failed"
            run.beat()
            time.sleep(meeting.POLL_S)
    run.say(None)
    if found:
        return found, "a name was there before its content"
    if len(seen) < _FILES:
        return "failed", f"{len(seen)} of {_FILES} files seen in {limit_s:g} s"
    return "", f"{_FILES} files, each whole when it was first seen"


def _wait_until_seen(run: Run, name: str, folder: Path, limit_s: float) -> tuple[str, str]:
    began = time.monotonic()
    while (waited_s := time.monotonic() - began) < limit_s:
        time.sleep(meeting.POLL_S)
        run.beat()
        if sees(name, folder):
            return "late", f"seen after {waited_s:.1f} s"
    return "failed", f"not seen in {limit_s:g} s"


def _are_two(run: Run, *, one_machine: bool) -> tuple[str, str]:
    theirs = run.partner["owner"]
    if run.owner.boot_id and run.owner.boot_id == theirs["boot_id"]:
        return ("" if one_machine else "failed", "the other run is on the same kernel")
    return ("", "another kernel" + (", same host name" if run.owner.host == theirs["host"] else ""))


def _compare_clocks(run: Run, own: Path) -> dict[str, _Found]:
    run.say(None)
    before, began = time.time(), time.monotonic()
    (own / "stamp").touch()
    stamp = (own / "stamp").stat().st_mtime
    clock, other_stamp = run.say([before, stamp])
    # The other run spoke at some time between; a turn takes up to a second.
    apart = max(clock - time.time(), before - 1.0 - clock, 0.0)
    stamps_apart = abs(other_stamp - stamp)
    late = stamps_apart > time.monotonic() - began + _STAMPS_S
    return {
        "clocks of the machines": ("failed" if apart > _CLOCKS_S else "", f"{apart:.1f} s apart", _CLOCK),
        "times of files": ("failed" if late else "", f"{stamps_apart:.1f} s apart", _STAMPS),
    }


def mount_of(folder: Path) -> str:
    """Return kind and options of the mount that a folder lies on, such as ``nfs4 rw,vers=4.2``; empty if unknown."""
    found, device = "", folder.stat().st_dev
    with suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            before, _, after = line.partition(" - ")
            if before.split()[2] == f"{os.major(device)}:{os.minor(device)}":
                kind, _, options = after.split(" ", 2)
                found = f"{kind} {options}"
    return found


def prepare(folder: Path) -> None:
    """Make the state before the changes."""
    for name in ("replaced", "gone", "log"):
        write_atomic(folder / name, _OLD)
    _publish(folder, _OLD)
    (folder / "record").touch()
    os.utime(folder / "record", (1.0, 1.0))
    (folder / "many").mkdir()


def change(folder: Path) -> None:
    """Change names, contents and times as builds do."""
    write_atomic(folder / "replaced", _NEW)
    write_atomic(folder / "new", _NEW)
    (folder / "gone").unlink()
    _publish(folder, _NEW)
    with (folder / "log").open("ab") as handle:
        handle.write(_NEW)
        handle.flush()
        os.fsync(handle.fileno())
    os.utime(folder / "record")


def write_many(folder: Path) -> None:
    """Write files whose names are the digests of their contents."""
    for _ in range(_FILES):
        data = os.urandom(_FILE_BYTES)
        write_atomic(folder / hashlib.sha256(data).hexdigest(), data)


def _publish(folder: Path, version: bytes) -> None:
    (folder / "work").mkdir()
    (folder / "work" / "file").write_bytes(version)
    digest12 = hashlib.sha256(version).hexdigest()[:12]
    publish_generation(folder / "work", folder / "link", digest12, fenced=nullcontext)


def read_many(folder: Path, seen: set[str]) -> bool:
    """Read the files that are listed and not seen before; whether each has the content whose digest is its name."""
    with suppress(OSError):
        for name in os.listdir(folder):  # noqa: PTH208
            if not name.startswith(".") and name not in seen:
                if hashlib.sha256((folder / name).read_bytes()).hexdigest() != name:
                    return False
                seen.add(name)
    return True


def _renewed_at(folder: Path) -> float:
    """Return the time of a lock's record as those who want the lock read it: opening refreshes what a cache keeps."""
    with (folder / "record").open("rb") as file:
        return os.fstat(file.fileno()).st_mtime


def sees(name: str, folder: Path) -> bool:
    """Whether a change is seen now; the look before the change fills the caches."""
    with suppress(OSError, GenoLeWMError):
        return LOOKS[name][0](folder)
    return False


#: What must be seen: the look of another machine, and what to do where it is seen late or never.
LOOKS: Mapping[str, tuple[Callable[[Path], bool], str]] = {
    "new bytes of a replaced file": (lambda folder: (folder / "replaced").read_bytes() == _NEW, _NAMES),
    "a new name": (lambda folder: (folder / "new").read_bytes() == _NEW, _NAMES),
    "a new entry in a listing": (lambda folder: "new" in os.listdir(folder), _NAMES),  # noqa: PTH208
    "that a name is gone": (lambda folder: not os.path.lexists(folder / "gone"), _NAMES),
    "a published folder behind its link": (
        lambda folder: (resolve_generation(folder / "link") / "file").read_bytes() == _NEW,
        _NAMES,
    ),
    "appended bytes": (lambda folder: (folder / "log").read_bytes() == _OLD + _NEW, _CONTENTS),
    "the renewal of a lock": (lambda folder: _renewed_at(folder) > 1.0, _CONTENTS),
}
