from __future__ import annotations

import errno
import fcntl
import os
import threading
from pathlib import Path

import pytest

from genolewm_assets.errors import BusyError, ResourceError
from genolewm_assets.store.locks.guard import NO_LOCKS, flock, guarded, is_flocked, lock_folder, looked_through
from genolewm_assets_tests.faults.killing import outcome, start


def test_one_alone_or_several_that_look(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with guarded(path, 0):
        for attempt in (lambda: guarded(path, 0.02), lambda: looked_through(path)):
            with pytest.raises(BusyError, match=f"{path}: another process still holds the lock"), attempt():
                pass
    with looked_through(path), looked_through(path), pytest.raises(BusyError), guarded(path, 0):
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
    held = lock_folder(tmp_path, wait=True)
    with pytest.raises(BusyError, match=f"{tmp_path}: another process has the folder locked"):
        lock_folder(tmp_path, wait=False)
    os.close(held)
    os.close(lock_folder(tmp_path, wait=False))


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
def test_a_file_system_without_locks_is_said_to_be_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(descriptor: int, kind: int) -> None:
        raise OSError(code, os.strerror(code))

    before = len(list(Path("/proc/self/fd").iterdir()))
    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(ResourceError, match=r"the file system has no locks \(flock: .*Mount it with locks"):
        guarded(tmp_path / "lock", 0).__enter__()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_other_errors_pass(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), looked_through(tmp_path / "lock"):
        pass
    with pytest.raises(FileNotFoundError), guarded(tmp_path / "none" / "lock", 0):
        pass
    (tmp_path / "link").symlink_to("lock")
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)), guarded(tmp_path / "link", 0):
        pass
