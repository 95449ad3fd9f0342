"""Check of a root that two machines mount: two runs meet in a folder of it, and each looks at what the other changes.

::

    <root>/work/.root-check/run.<token>.json   one per run: who it is, whom it has met, what it says
    <root>/work/.root-check/try.<token>/       what that run changes

A run rewrites its file in place while it waits and never replaces it, and the reader opens it anew for every look: a
network file system shows that soon (close-to-open consistency), also where it keeps names and listings in a cache. What
one machine alone can test is in ``artefacts.probe``.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from genolewm_assets.errors import BusyError, GenoLeWMError, MissingResourceError, ResourceError
from genolewm_assets.progress import Progress
from genolewm_assets.store.artefacts import ROOT_FILE, WORK, check_file_system
from genolewm_assets.store.files import (
    check_plain_folder,
    publish_generation,
    read_document,
    remove_tree,
    resolve_generation,
    write_atomic,
)
from genolewm_assets.store.locks import LeaseOwner, flock, guarded

# Seconds after which a change counts as never seen; that clocks, and times that files get, may differ; of one look.
_LIMIT_S, _CLOCKS_S, _STAMPS_S, _POLL_S = 90.0, 2.0, 5.0, 0.02
# Seconds of waiting for a lock, after which a silent run counts as ended, and after which its files are removed.
_LOCK_WAIT_S, _SILENT_S, _LEFT_S = 30.0, 45.0, 120.0
_FILES, _FILE_BYTES, _NOTE_BYTES = 20, 1 << 16, 1 << 14
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
    run.say(None)
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


def _wait_until_seen(run: Run, name: str, folder: Path, limit_s: float) -> tuple[str, str]:
    began = time.monotonic()
    while (waited_s := time.monotonic() - began) < limit_s:
        time.sleep(_POLL_S)
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


class Run:
    """One of two runs that take turns; each turn says a JSON value and returns what the other run says."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.owner = folder, LeaseOwner.of_this_process("checks the root")
        self.token, self.partner = self.owner.token, dict[str, Any]()
        self._note: dict[str, Any] = {"owner": asdict(self.owner), "beat": 0, "partner": "", "step": 0, "said": {}}

    def beat(self) -> None:
        """Rewrite the file of this run in place: a run whose file stays the same has ended."""
        self._note["beat"] += 1
        raw = json.dumps(self._note).encode().ljust(_NOTE_BYTES)
        descriptor = os.open(self.path_of(self.token), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            os.pwrite(descriptor, raw, 0)
        finally:
            os.close(descriptor)

    def path_of(self, token: str) -> Path:
        """Return the file of a run."""
        return self.folder / f"run.{token}.json"

    def meet(self, wait_s: float, progress: Progress) -> None:
        """Wait for another run and agree with it; :class:`MissingResourceError` if none comes."""
        began, first_beats = time.monotonic(), dict[str, int]()
        while (waited := time.monotonic() - began) < wait_s:
            self.beat()
            self._sweep()
            notes = {path.name: _read(path) for path in self.folder.glob("run.*.json")}
            found = {note["owner"]["token"]: note for note in notes.values() if note}
            for token, note in found.items():
                first_beats.setdefault(token, note["beat"])
            # The file of a killed run does not change.
            if self._agree(
                {t: note for t, note in found.items() if t != self.token and note["beat"] != first_beats[t]}
            ):
                self.say(None)
                return
            progress.advance(int(waited), int(wait_s), "s waited for the other run")
            time.sleep(10 * _POLL_S)
        raise MissingResourceError(
            str(self.folder.parents[1]),
            f"no second run of this check was seen within {wait_s:g} s",
            remedy="Run the command on another machine that mounts this root while this one waits (--wait). If it was "
            "running there, the two do not mount the same folder, or names are kept in a cache for longer than that",
        )

    def _agree(self, alive: Mapping[str, dict[str, Any]]) -> bool:
        """Choose a partner, or see whether the chosen one has chosen this run; return whether both have."""
        wanted = self._note["partner"]
        if wanted in alive and alive[wanted]["partner"] in {self.token, ""}:
            self.partner = alive[wanted]
            return bool(self.partner["partner"])
        # Those that have chosen this run come first. A choice is withdrawn only if the other one chose a third.
        choosing = sorted(t for t, note in alive.items() if note["partner"] == self.token)
        free = sorted(t for t, note in alive.items() if not note["partner"])
        self._note["partner"] = next(iter([*choosing, *free]), "")
        return False

    def say(self, value: object) -> Any:
        """Take one turn; :class:`ResourceError` if the other run has ended."""
        answer = self._take_turn(value)
        if answer is None:
            owner = self.partner["owner"]
            raise ResourceError(
                str(self.folder.parents[1]),
                f"the other run (process {owner['pid']} on {owner['host']}) ended in the middle of the check",
                remedy="See what it said there, and run both again",
            )
        return answer["said"][str(self._note["step"])]

    def part(self) -> None:
        """Wait until the other run needs nothing more of this one."""
        self._take_turn(None)

    def _take_turn(self, value: object) -> dict[str, Any] | None:
        """Return the other run's note once it has taken the same turn; None if it has ended."""
        self._note["step"] = step = self._note["step"] + 1
        self._note["said"] = {k: v for k, v in self._note["said"].items() if int(k) >= step - 1} | {str(step): value}
        path, beat, changed = self.path_of(self.partner["owner"]["token"]), -1, time.monotonic()
        while True:
            self.beat()
            note = _read(path)
            if note is not None and note["step"] >= step:
                return note
            if note is not None and note["beat"] != beat:
                beat, changed = note["beat"], time.monotonic()
            if time.monotonic() - changed > (_SILENT_S if path.exists() else 1.0):
                return None
            time.sleep(_POLL_S)

    def _sweep(self) -> None:
        """Remove what killed runs left, judged by the clock of the file system."""
        with suppress(OSError):
            now = self.path_of(self.token).stat().st_mtime
            for note in self.folder.glob("run.*.json"):
                if now - note.stat().st_mtime > _LEFT_S:
                    remove_tree(self.folder / f"try.{note.name.split('.')[1]}")
                    note.unlink()


def _read(path: Path) -> dict[str, Any] | None:
    """Return what a run says; None if its file is missing, or was read while it was written."""
    with suppress(GenoLeWMError, TypeError, LookupError):
        note: dict[str, Any] = read_document(path, remedy="")
        if isinstance(note["owner"]["token"], str):
            return note
    return None


@contextmanager
def joined(folder: Path) -> Iterator[Run]:
    """Enter the folder of the runs, and remove every trace of this one at the end."""
    run = Run(folder)
    for part in (folder.parent, folder):
        check_plain_folder(part)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        run.beat()
        yield run
    finally:
        with suppress(OSError):
            remove_tree(folder / f"try.{run.token}")
            run.path_of(run.token).unlink(missing_ok=True)
            folder.rmdir()
            if not (folder.parents[1] / ROOT_FILE).exists():
                folder.parent.rmdir()


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
    for _ in range(_FILES):
        data = os.urandom(_FILE_BYTES)
        write_atomic(folder / "many" / hashlib.sha256(data).hexdigest(), data)


def _publish(folder: Path, version: bytes) -> None:
    (folder / "work").mkdir()
    (folder / "work" / "file").write_bytes(version)
    digest12 = hashlib.sha256(version).hexdigest()[:12]
    publish_generation(folder / "work", folder / "link", digest12, fenced=nullcontext)


def _are_whole(folder: Path) -> bool:
    """Whether each listed file has the content whose digest is its name."""
    names = [name for name in os.listdir(folder) if not name.startswith(".")]  # noqa: PTH208
    return bool(names) and all(hashlib.sha256((folder / name).read_bytes()).hexdigest() == name for name in names)


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
    "the renewal of a lock": (lambda folder: (folder / "record").stat().st_mtime > 1.0, _CONTENTS),
    "renamed files are whole": (lambda folder: _are_whole(folder / "many"), _WHOLE),
}
