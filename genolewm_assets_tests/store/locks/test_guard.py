"""Records of locks that nobody writes, and what stands in their place."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from genolewm_assets.errors import BusyError, ResourceError
from genolewm_assets.store.locks.guard import NO_LOCKS, flock, guarded, is_flocked, locked_folder
from genolewm_assets.store.locks.lease import GUARD, WriterLease, is_held
from genolewm_assets.store.locks.processes import boot_id, is_running, is_same_process, pid_namespace, started_ticks
from genolewm_assets.store.locks.record import RECORD, LeaseOwner, read_owner
from genolewm_assets_tests.faults.killing import outcome, start
from genolewm_assets_tests.worlds.store.leases import check_busy, check_free, lease_of, write_record


def test_one_alone_or_several_that_look(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with guarded(path, 0):
        for attempt in (lambda: guarded(path, 0.02), lambda: guarded(path, 0, shared=True)):
            with pytest.raises(BusyError, match=f"{path}: another process still holds the lock"), attempt():
                pass
    with guarded(path, 0, shared=True), guarded(path, 0, shared=True), pytest.raises(BusyError), guarded(path, 0):
        pass
    with guarded(path, 0):
        pass


def test_an_open_file_or_folder_is_locked_until_it_is_closed(tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb") as first, (tmp_path / "a").open("rb") as second:
        assert not is_flocked(second.fileno())
        assert flock(first.fileno())
        assert is_flocked(second.fileno())
        assert not flock(second.fileno(), shared=True)
        first.close()
        assert flock(second.fileno(), wait=True)
    match = f"{tmp_path}: another process has the folder locked"
    with locked_folder(tmp_path), pytest.raises(BusyError, match=match), locked_folder(tmp_path, wait=False):
        pass
    with locked_folder(tmp_path, wait=False):
        pass


def test_who_waits_gets_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    held, waiting = threading.Event(), threading.Event()

    def hold() -> None:
        with guarded(path, 0):
            held.set()
            waiting.wait(0.1)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(20)
    with guarded(path, 20):
        waiting.set()
    thread.join()


def test_a_process_forked_inside_does_not_keep_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    reader, writer = os.pipe()

    def outlive() -> None:
        os.close(writer)
        os.read(reader, 1)

    with guarded(path, 0):
        child = start(outlive)
    with guarded(path, 0):
        pass
    os.close(writer)
    os.waitpid(child, 0)
    os.close(reader)


def test_a_lock_file_that_was_removed_locks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lock"
    real, removed = fcntl.flock, []

    def remove_once(descriptor: int, kind: int) -> None:
        real(descriptor, kind)
        if not removed:
            removed.append(path.stat().st_ino)
            path.unlink()

    monkeypatch.setattr(fcntl, "flock", remove_once)
    with guarded(path, 5):
        monkeypatch.undo()
        assert path.exists()
        assert outcome(lambda: guarded(path, 0).__enter__()).startswith("BusyError")


@pytest.mark.parametrize("code", sorted(NO_LOCKS))
def test_a_file_system_without_locks_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def refuse(descriptor: int, kind: int) -> None:
        raise OSError(code, os.strerror(code))

    before = len(list(Path("/proc/self/fd").iterdir()))
    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(ResourceError, match=r"the file system has no locks \(flock: .*Mount it with locks"):
        guarded(tmp_path / "lock", 0).__enter__()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_other_errors_pass(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), guarded(tmp_path / "lock", 0, shared=True):
        pass
    with pytest.raises(FileNotFoundError), guarded(tmp_path / "none" / "lock", 0):
        pass
    (tmp_path / "link").symlink_to("lock")
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)), guarded(tmp_path / "link", 0):
        pass


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


def test_a_process_is_the_same_as_long_as_it_lives(child: subprocess.Popen[bytes]) -> None:
    ticks = started_ticks(child.pid)
    assert ticks is not None
    assert is_same_process(child.pid, ticks)
    assert is_same_process(child.pid, None)
    assert not is_same_process(child.pid, ticks - 1)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not is_same_process(child.pid, ticks), "dead, and nobody has asked how it ended"
    assert not is_running(child.pid, time.time())
    child.wait()
    assert not is_same_process(child.pid, ticks)
    assert started_ticks(child.pid) is None


def test_a_name_with_blanks_and_parentheses_is_read_past(tmp_path: Path) -> None:
    program = tmp_path / "a) Z 1 ("
    program.symlink_to("/bin/sleep")
    process = subprocess.Popen([program, "600"])
    try:
        ticks = started_ticks(process.pid)
        assert ticks is not None
        assert is_same_process(process.pid, ticks)
        assert is_running(process.pid, time.time())
        assert not is_running(process.pid, time.time() - 3600)
    finally:
        process.kill()
        process.wait()


def test_a_hidden_process_counts_as_there(child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    def hide(self: Path, *args: object, **kwargs: object) -> str:
        raise FileNotFoundError(2, "No such file or directory", str(self))

    monkeypatch.setattr(Path, "read_text", hide)
    assert is_same_process(child.pid, 1)
    assert is_running(child.pid, 0.0)
    assert boot_id() == ""
    assert started_ticks(child.pid) is None


def test_this_machine_and_its_numbering_have_names() -> None:
    assert len(boot_id()) == 36
    assert pid_namespace().startswith("pid:[")


HERE = LeaseOwner.of_this_process()
_GOOD = json.loads(HERE.to_bytes())
BAD_RECORDS: dict[str, bytes] = {
    "no JSON": b"{",
    "no object": b"[1]",
    "deep": b"[" * 60_000,
    "not UTF-8": b"\xff\xfe{}",
    "other schema": json.dumps({**_GOOD, "schema": "other"}).encode(),
    "later version": json.dumps({**_GOOD, "schema_version": "2.0"}).encode(),
    "no token": json.dumps({name: value for name, value in _GOOD.items() if name != "token"}).encode(),
    "token with a path": json.dumps({**_GOOD, "token": "../../../../etc/passwd/aaaaaaaaaa"}).encode(),
    "every process": json.dumps({**_GOOD, "pid": -1}).encode(),
    "own group": json.dumps({**_GOOD, "pid": 0}).encode(),
    "huge number": json.dumps({**_GOOD, "pid": 1 << 80}).encode(),
    "true": json.dumps({**_GOOD, "pid": True}).encode(),
    "text for a number": json.dumps({**_GOOD, "started_ticks": "1"}).encode(),
    "control characters": json.dumps({**_GOOD, "host": "a\nb\x1b[2J"}).encode(),
    "note of two lines": json.dumps({**_GOOD, "note": "a\nb"}).encode(),
    "note without text": json.dumps({**_GOOD, "note": ["a"]}).encode(),
    "too long": json.dumps({**_GOOD, "host": "h" * 100_000}).encode(),
}


@pytest.mark.parametrize("raw", BAD_RECORDS.values(), ids=BAD_RECORDS)
def test_a_record_that_cannot_be_understood_is_somebody_elsewhere(folder: Path, raw: bytes) -> None:
    write_record(folder, raw, silent_s=50)
    check_busy(folder)
    write_record(folder, raw, silent_s=61)
    with lease_of(folder).acquire(0):
        (displaced,) = folder.glob("displaced.*.json")
        assert displaced.read_bytes() == raw


@pytest.mark.parametrize("raw", [b"", b"\0" * 300])
def test_a_record_without_content_is_what_a_power_cut_left(folder: Path, raw: bytes) -> None:
    write_record(folder, raw)
    check_free(folder)


def test_a_record_keeps_its_note_and_needs_none(folder: Path) -> None:
    with WriterLease(folder, "here", note="serves people").acquire(0) as lease:
        owner = read_owner(folder / RECORD)
        assert owner == lease.owner
        assert owner is not None
        assert owner.note == "serves people"
        lease.check_held()
    older = {name: value for name, value in _GOOD.items() if name != "note"}
    assert read_owner(write_record(folder, json.dumps(older).encode())) == HERE


IN_THE_WAY: dict[str, Callable[[Path], object]] = {
    "folder": Path.mkdir,
    "link": lambda path: path.symlink_to("/etc/hostname"),
    "link to nothing": lambda path: path.symlink_to("nowhere"),
    "pipe": os.mkfifo,
}


@pytest.mark.parametrize("what", IN_THE_WAY)
def test_what_is_in_the_way_of_a_record_is_named(folder: Path, what: str) -> None:
    IN_THE_WAY[what](folder / RECORD)
    (folder / GUARD).touch()
    with pytest.raises(ResourceError, match=f"{folder / RECORD}: is in the place of a lock file"):
        lease_of(folder).acquire(0)
    assert is_held(folder)
    assert os.path.lexists(folder / RECORD)
