"""Check of a shared root by two runs on two machines: what each sees of the other, point by point, with a verdict.

Most points are tried in both directions: one run changes something and says so, then the other one looks. That is how a
step on one machine finds what a step on another has published.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from genolewm_assets.errors import BusyError, MissingResourceError
from genolewm_assets.progress import Progress
from genolewm_assets.store.artefacts import WORK, check_file_system
from genolewm_assets.store.files import write_atomic
from genolewm_assets.store.hosts.looks import LOOKS, NAMES, Look
from genolewm_assets.store.hosts.meeting import Meeting, meeting
from genolewm_assets.store.locks import flock, guarded

# Seconds after which a change is no longer waited for.
_LIMIT_S = 90.0
_TURNS, _FILES, _FILE_BYTES = 25, 20, 1 << 16
# Seconds by which clocks may differ: those of two machines, and the times that the file system gives to files.
_CLOCKS_S, _STAMPS_S = 2.0, 5.0
_LOCK_WAIT_S = 30.0
_LOCKS = (
    "Mount it with locks that all machines share: NFS 4, or NFS 3 with lockd, without nolock and local_lock; Lustre "
    "with flock; FUSE with locks forwarded to the server"
)
_WHOLE = "Do not use this file system: it shows a renamed file before its content"
_CLOCK = "Let both machines follow one time server (chrony, systemd-timesyncd)"
_STAMPS = "Mount it so that the server sets modification times (NFS does, SMB does not)"
_MACHINES = "Run the command once on each of two machines (--one-machine only tries it out)"

#: What one run found at one point: what is wrong ("" for nothing), and what was seen.
_Found = tuple[str, str]


@dataclass(frozen=True, slots=True)
class PointResult:
    """Verdict of one point.

    Attributes
    ----------
    point
        What was tried.
    verdict
        ``ok``; ``late``: it holds after a time in which a step on another machine would fail; ``failed``.
    here, there
        What this run saw, and what the other one saw.
    remedy
        What to do; empty if ``ok``.
    """

    point: str
    verdict: str
    here: str
    there: str
    remedy: str


@dataclass(frozen=True, slots=True)
class RootCheck:
    """Result of a check.

    Attributes
    ----------
    here, there
        Host name and mount of each run.
    points
        Verdicts, in the order of the trials.
    """

    here: str
    there: str
    points: tuple[PointResult, ...]

    @property
    def passed(self) -> bool:
        """Whether every point is ``ok``."""
        return all(point.verdict == "ok" for point in self.points)


@dataclass(frozen=True, slots=True)
class _Point:
    name: str
    run: Callable[[Meeting], _Found]
    remedy: str
    needs_locks: bool = False


def check_root(
    folder: Path, *, wait_s: float, one_machine: bool, limit_s: float = _LIMIT_S, progress: Progress
) -> RootCheck:
    """Check with a second run on another machine whether a folder can be a root of both; leave nothing behind.

    Parameters
    ----------
    folder
        An existing folder, a root or one that is to be.
    wait_s
        Seconds to wait for the second run.
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
    with meeting(folder / WORK / ".root-check", wait_s, progress) as met:
        met.say(None)
        probe = met.place / met.owner.mark
        probe.mkdir()
        check_file_system(probe)
        mount = str(met.say(mount_of(folder)))
        points = _points(one_machine=one_machine, limit_s=limit_s)
        results: list[PointResult] = []
        for number, point in enumerate(points, 1):
            progress.advance(number - 1, len(points), "points tried")
            results.append(_try(met, point, after=results))
        met.part()
        return RootCheck(
            f"{met.owner.host} ({mount_of(folder)})", f"{met.partner.owner['host']} ({mount})", tuple(results)
        )


def _try(met: Meeting, point: _Point, *, after: Sequence[PointResult]) -> PointResult:
    # Both runs have the same verdicts, so both leave out the same points.
    broken = point.needs_locks and any(each.remedy == _LOCKS for each in after)
    fault, seen = ("failed", "not tried, because the locks failed") if broken else point.run(met)
    other_fault, other_seen = met.say([fault, seen])
    verdict = max("ok", fault or "ok", other_fault or "ok", key=("ok", "late", "failed").index)
    remedy = "" if verdict == "ok" else _LOCKS if broken else point.remedy
    return PointResult(point.name, verdict, seen, other_seen, remedy)


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


def _points(*, one_machine: bool, limit_s: float) -> tuple[_Point, ...]:
    return (
        _Point("two machines", lambda met: _are_two(met, one_machine=one_machine), _MACHINES),
        _Point("clocks of the machines", _compare_clocks, _CLOCK),
        _Point("times of files", _compare_stamps, _STAMPS),
        _Point("a lock held there is refused here", _both_ways(_try_held_lock), _LOCKS),
        _Point("a file changed by both in turn, under the lock", _count_together, _LOCKS, needs_locks=True),
        *(_Point(look.name, _both_ways(_looking(look, limit_s)), look.remedy) for look in LOOKS),
        _Point("names changed under a lock, once it is taken", _both_ways(_look_under_lock), NAMES, needs_locks=True),
        _Point("renamed files are whole", _both_ways(_read_renamed), _WHOLE),
    )


def _both_ways(trial: Callable[[Meeting, Path, bool], _Found]) -> Callable[[Meeting], _Found]:
    """Run a trial twice, each time in a folder of its own; the run that does not act in it returns what it found."""

    def run(met: Meeting) -> _Found:
        found: _Found = ("", "")
        for acts in (met.leads, not met.leads):
            met.say(None)
            folder = met.place / str(met.turn)
            if acts:
                folder.mkdir()
            met.say(None)
            result = trial(met, folder, acts)
            found = found if acts else result
        return found

    return run


def _are_two(met: Meeting, *, one_machine: bool) -> _Found:
    mine, theirs = met.owner, met.partner.owner
    if mine.boot_id and mine.boot_id == theirs["boot_id"]:
        return ("" if one_machine else "failed", "the other run is on the same kernel")
    return ("", "another kernel" + (", same host name" if mine.host == theirs["host"] else ""))


def _compare_clocks(met: Meeting) -> _Found:
    before = time.time()
    other = float(met.say(time.time()))
    # The other one spoke at some time between; a turn takes up to a second.
    apart = max(other - time.time(), before - 1.0 - other, 0.0)
    return ("failed" if apart > _CLOCKS_S else "", f"{apart:.1f} s apart")


def _compare_stamps(met: Meeting) -> _Found:
    met.say(None)
    path, began = met.place / f"stamp.{met.owner.mark}", time.monotonic()
    path.touch()
    mine = path.stat().st_mtime
    apart = abs(float(met.say(mine)) - mine)
    allowed = time.monotonic() - began + _STAMPS_S
    return ("failed" if apart > allowed else "", f"{apart:.1f} s apart")


def _try_held_lock(met: Meeting, folder: Path, acts: bool) -> _Found:
    path, refused = folder / "lock", {"exclusive": True, "shared": True}
    if acts:
        with guarded(path, _LOCK_WAIT_S):
            met.say(None)
            met.say(None)
        met.say(None)
        return ("", "")
    met.say(None)
    for kind in refused:
        with path.open("r+b") as handle:
            refused[kind] = not flock(handle.fileno(), shared=kind == "shared")
    met.say(None)
    met.say(None)
    if taken := [kind for kind, held in refused.items() if not held]:
        return ("failed", f"took a lock that is held ({', '.join(taken)})")
    began = time.monotonic()
    try:
        with guarded(path, _LOCK_WAIT_S):
            return ("", f"refused; taken {time.monotonic() - began:.1f} s after its release")
    except BusyError:
        return ("failed", f"still refused {_LOCK_WAIT_S:g} s after its release")


def _count_together(met: Meeting) -> _Found:
    """Add to a number in a file, in turn with the other run; an addition is lost if both hold the lock at once."""
    lock, count = met.place / "count.lock", met.place / "count"
    if met.leads:
        count.write_text("0")
        lock.touch()
    met.say(None)
    try:
        for _ in range(_TURNS):
            with guarded(lock, _LOCK_WAIT_S):
                number = int(count.read_text() or 0)
                time.sleep(0.002)
                count.write_text(str(number + 1))
    except BusyError:
        met.say(None)
        return ("failed", f"waited {_LOCK_WAIT_S:g} s for the lock")
    met.say(None)
    with guarded(lock, _LOCK_WAIT_S):
        total = int(count.read_text() or 0)
    return ("" if total == 2 * _TURNS else "failed", f"{total} of {2 * _TURNS} additions")


def _looking(look: Look, limit_s: float) -> Callable[[Meeting, Path, bool], _Found]:
    def trial(met: Meeting, folder: Path, acts: bool) -> _Found:
        if acts:
            look.prepare(folder)
        met.say(None)
        if not acts:
            look.sees(folder)
        met.say(None)
        if acts:
            look.change(folder)
        met.say(None)
        found: _Found = ("", "")
        if not acts:
            waited_s = look.seconds_until_seen(folder, limit_s)
            if waited_s is None:
                found = ("failed", f"not seen in {limit_s:g} s")
            else:
                found = ("late" if waited_s > look.soon_s else "", f"seen after {waited_s:.1f} s")
        met.say(None)
        return found

    return trial


def _look_under_lock(met: Meeting, folder: Path, acts: bool) -> _Found:
    """Wait for a lock under which the other run makes every change; look once, as soon as the lock is taken."""
    places = [folder / str(number) for number in range(len(LOOKS))]
    if acts:
        for look, place in zip(LOOKS, places, strict=True):
            place.mkdir()
            look.prepare(place)
    met.say(None)
    if acts:
        with guarded(folder / "lock", _LOCK_WAIT_S):
            met.say(None)
            for look, place in zip(LOOKS, places, strict=True):
                look.change(place)
        met.say(None)
        return ("", "")
    for look, place in zip(LOOKS, places, strict=True):
        look.sees(place)
    met.say(None)
    with guarded(folder / "lock", _LOCK_WAIT_S):
        missed = [look.name for look, place in zip(LOOKS, places, strict=True) if not look.sees(place)]
    met.say(None)
    return (
        ("late", f"{len(missed)} of {len(LOOKS)} not seen at once: {', '.join(missed)}") if missed else ("", "all seen")
    )


def _read_renamed(met: Meeting, folder: Path, acts: bool) -> _Found:
    """Read each file as soon as its name is listed; the name is the digest of the content."""
    met.say(None)
    if acts:
        for _ in range(_FILES):
            data = os.urandom(_FILE_BYTES)
            write_atomic(folder / hashlib.sha256(data).hexdigest(), data)
        met.say(None)
        return ("", "")
    torn, read, began = 0, set[str](), time.monotonic()
    while len(read) < _FILES and time.monotonic() - began < _LIMIT_S:
        for name in {name for name in os.listdir(folder) if not name.startswith(".")} - read:  # noqa: PTH208
            torn += hashlib.sha256((folder / name).read_bytes()).hexdigest() != name
            read.add(name)
    met.say(None)
    return ("failed" if torn or len(read) < _FILES else "", f"{len(read)} of {_FILES} seen, {torn} torn")
