from __future__ import annotations

import errno
import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from genolewm_assets.errors import BusyError
from genolewm_assets.store.locks import lease as lease_module
from genolewm_assets.store.locks import record as lock_record
from genolewm_assets.store.locks.lease import GUARD, WriterLease, is_held
from genolewm_assets.store.locks.processes import started_ticks
from genolewm_assets.store.locks.record import RECORD, LeaseOwner, read_owner
from genolewm_assets_tests.faults.kill_points import KillPoints
from genolewm_assets_tests.faults.killing import outcome, start
from genolewm_assets_tests.worlds.store.leases import (
    check_busy,
    check_free,
    foreign_owner,
    holding,
    lease_of,
    names,
    pretend_elsewhere,
    silence,
    wait_for,
    write_record,
)

HERE = LeaseOwner.of_this_process()


def test_the_record_says_who_holds_the_lock_and_is_gone_after_it(folder: Path) -> None:
    with lease_of(folder).acquire(0) as lease:
        document = json.loads((folder / RECORD).read_bytes())
        assert lease.owner is not None
        assert document["host"] == os.uname().nodename
        assert document["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        assert (document["pid"], document["started_ticks"]) == (os.getpid(), started_ticks(os.getpid()))
        assert document["token"] == lease.owner.token
        lease.check_held()
    assert names(folder) == [GUARD]
    first = document["token"]
    with lease_of(folder).acquire(0) as lease:
        assert lease.owner is not None
        assert lease.owner.token != first


def test_who_is_in_the_way_is_named_and_the_next_gets_the_lock(folder: Path, tmp_path: Path) -> None:
    with holding(folder, tmp_path) as child:
        check_busy(folder, rf"another process \(process {child} on {os.uname().nodename}, since 20..-.*\+00:00\)")
        (tmp_path / "enough").touch()
        lease_of(folder).acquire(20).release()
    check_free(folder)


def test_two_leases_of_one_process_exclude_each_other(folder: Path) -> None:
    with lease_of(folder).acquire(0):
        check_busy(folder, f"process {os.getpid()} on")
    check_free(folder)


@pytest.mark.parametrize("reaped", [True, False])
def test_a_killed_owner_s_lock_is_taken_at_once(folder: Path, tmp_path: Path, reaped: bool) -> None:
    with holding(folder, tmp_path) as child:
        os.kill(child, signal.SIGKILL)
        os.waitid(os.P_PID, child, os.WEXITED | (0 if reaped else os.WNOWAIT))
        assert (folder / RECORD).exists()
        check_free(folder)


def test_a_stopped_owner_is_alive_however_long_it_is_silent(folder: Path, tmp_path: Path) -> None:
    with holding(folder, tmp_path) as child:
        os.kill(child, signal.SIGSTOP)
        silence(folder / RECORD, 7 * 24 * 3600)
        check_busy(folder, f"process {child} on")


def test_a_later_process_with_the_owner_s_number_is_another(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert HERE.started_ticks is not None
    write_record(folder, HERE)
    with (folder / RECORD).open("rb") as record, monkeypatch.context() as held:
        held.setattr(lock_record, "HELD", {HERE.token})
        fcntl.flock(record, fcntl.LOCK_EX)
        check_busy(folder)
    write_record(folder, replace(HERE, started_ticks=HERE.started_ticks - 1))
    check_free(folder)


def test_a_lock_that_could_not_be_released_is_nobody_s(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk failed when the record was to be removed; the process lives on."""
    lease = WriterLease(folder, "here").acquire(0)

    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as failing:
        failing.setattr(lease_module, "guarded", refuse)
        with pytest.raises(OSError, match="Input/output error"):
            lease.release()
    assert (folder / RECORD).exists()
    assert outcome(lambda: WriterLease(folder, "there").acquire(0).owner is not None) == "True"
    WriterLease(folder, "here").acquire(0).release()
    assert not (folder / RECORD).exists()


def test_an_owner_in_another_container_is_alive_while_it_keeps_its_record_locked(folder: Path, tmp_path: Path) -> None:
    other = pytest.MonkeyPatch()

    def contained() -> None:
        other.setattr(lock_record, "pid_namespace", lambda: "pid:[1]")

    with holding(folder, tmp_path, before=contained) as child:
        silence(folder / RECORD, 7 * 24 * 3600)
        check_busy(folder, f"process {child} on")
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        check_free(folder)


def test_a_forked_child_neither_has_nor_releases_its_parent_s_lock(folder: Path) -> None:
    lease = lease_of(folder).acquire(0)

    def leave() -> str:
        with pytest.raises(BusyError, match="this process does not hold the lock"):
            lease.check_held()
        lease.release()
        return "left"

    assert outcome(leave) == "left"
    lease.check_held()
    lease.release()
    check_free(folder)


def test_a_process_that_ends_without_releasing_ends(folder: Path) -> None:
    code = "import sys, pathlib\nfrom genolewm_assets.store.locks.lease import WriterLease\n"
    code += "WriterLease(pathlib.Path(sys.argv[1]), 'here').acquire(0)"
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True, timeout=60)
    assert (folder / RECORD).exists()
    check_free(folder)


@pytest.mark.parametrize("owner", [foreign_owner(), foreign_owner(host=os.uname().nodename)], ids=["host", "boot"])
@pytest.mark.parametrize("silent_s", [0, 55, 65])
def test_a_lock_of_another_machine_lasts_a_minute_after_its_last_renewal(
    folder: Path, owner: LeaseOwner, silent_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_record, "machine_id", lambda: "1" * 32)
    owner = replace(owner, machine_id="1" * 32)
    write_record(folder, owner, silent_s=silent_s)
    if silent_s < 60:
        check_busy(folder, rf"process {owner.pid} on {owner.host}, .*can be taken once it has not been renewed .* 60 s")
        return
    assert not is_held(folder)
    with lease_of(folder).acquire(0):
        assert is_held(folder)
    # Of one that may be alive the record is kept; of one whose machine was started anew it is not.
    assert names(folder) == [*([f"displaced.{owner.mark}.json"] if owner.host == "elsewhere" else []), GUARD]


def test_ages_are_told_by_the_file_system_s_clock(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_record(folder, foreign_owner())
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 3600)
    check_busy(folder)


def test_a_record_from_the_future_grows_old_from_now_on(folder: Path) -> None:
    record = write_record(folder, foreign_owner(), silent_s=-3600)
    check_busy(folder)
    assert record.stat().st_mtime < time.time() + 5
    silence(record, 61)
    assert not is_held(folder)


def test_an_owner_renews_its_record_and_tries_again_on_failure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused: list[int] = []
    real = os.utime

    def refuse_thrice(path: int | Path, *args: object) -> None:
        if isinstance(path, int) and len(refused) < 3:
            refused.append(path)
            raise OSError(errno.EIO, "Input/output error")
        real(path, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(lease_module, "RENEW_S", 0.002)
    with lease_of(folder).acquire(0):
        monkeypatch.setattr(os, "utime", refuse_thrice)
        real(folder / RECORD, (0, 0))
        deadline = time.monotonic() + 20
        while (folder / RECORD).stat().st_mtime < time.time() - 60:
            assert time.monotonic() < deadline
            time.sleep(0.002)
    assert len(refused) == 3


def test_who_lost_the_lock_learns_who_has_it_and_leaves_it_alone(folder: Path) -> None:
    lease, other = lease_of(folder).acquire(0), foreign_owner()
    write_record(folder, other)
    ran = False
    lost = pytest.raises(BusyError, match=f"here: .*lost the lock .*process {other.pid} on elsewhere")
    with lost, lease.fenced():
        ran = True
    with lost:
        lease.check_held()
    assert not ran
    lease.release()
    assert (folder / RECORD).read_bytes() == other.to_bytes()


def test_a_lock_whose_files_were_removed_is_lost(folder: Path) -> None:
    lease = lease_of(folder).acquire(0)
    (folder / RECORD).unlink()
    with pytest.raises(BusyError, match="its record is gone"), lease.fenced():
        pass
    (folder / GUARD).unlink()
    folder.rmdir()
    with pytest.raises(BusyError, match="its record is gone"), lease.fenced():
        pass
    lease.release()
    assert not folder.exists()


def test_one_that_was_passed_over_gives_up_its_directories_when_it_releases(folder: Path, tmp_path: Path) -> None:
    with holding(folder, tmp_path, before=pretend_elsewhere) as child:
        silence(folder / RECORD, 61)
        with lease_of(folder).acquire(0):
            (displaced,) = folder.glob("displaced.*.json")
            assert json.loads(displaced.read_bytes())["pid"] == child
            (tmp_path / "enough").touch()
            assert os.waitpid(child, 0)[1] == 0
            assert names(folder) == [GUARD, RECORD]


def test_nobody_takes_the_lock_inside_a_fence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_module, "_LOOK_S", 0.1)
    lease = lease_of(folder).acquire(0)
    with lease.fenced():
        write_record(folder, foreign_owner(), silent_s=61)
        assert "BusyError" in outcome(lambda: lease_of(folder).acquire(0))
    lease.release()


@pytest.mark.parametrize("call", ["link", "open"])
def test_a_lock_that_the_disk_refuses_is_free(folder: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    real = getattr(os, call)

    def refuse(path: str | Path, *args: object, **kwargs: object) -> object:
        written = call == "link" or (Path(path).name == RECORD and Path(path).exists())
        if written:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return real(path, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, refuse)
        with pytest.raises(OSError, match="No space left"):
            lease_of(folder).acquire(0)
    check_free(folder)


VOID: dict[str, Callable[[Path], object]] = {
    "free": lambda folder: None,
    "dead": lambda folder: write_record(folder, replace(HERE, started_ticks=1)),
    "expired": lambda folder: write_record(folder, foreign_owner(), silent_s=61),
    "unknown": lambda folder: write_record(folder, b"?", silent_s=61),
}


def take_after(delay_s: float, folder: Path, flags: Path, takers: int) -> None:
    """Try to take a lock when all are there, and if it is got keep it until all have tried."""
    wait_for(flags / "starting")
    time.sleep(delay_s)
    lease = lease_of(folder)
    try:
        lease.acquire(0)
    except BusyError:
        (flags / f"lost{os.getpid()}").touch()
        return
    (flags / f"won{os.getpid()}").touch()
    deadline = time.monotonic() + 20
    while len(list(flags.glob("lost*"))) < takers - 1:
        assert time.monotonic() < deadline, "another one neither got the lock nor was told that it is busy"
        assert len(list(flags.glob("won*"))) == 1
        time.sleep(0.002)
    lease.check_held()


@pytest.mark.nightly
@pytest.mark.parametrize("former", VOID)
def test_of_many_takers_one_wins(tmp_path: Path, former: str) -> None:
    draw = random.Random(20_260_226)
    for number in range(12):
        folder, flags = tmp_path / f"folder{number}", tmp_path / f"flags{number}"
        folder.mkdir()
        flags.mkdir()
        VOID[former](folder)
        tries = [partial(take_after, draw.uniform(0, 0.003), folder, flags, 5) for _ in range(5)]
        children = [start(take) for take in tries]
        (flags / "starting").touch()
        assert [os.waitpid(child, 0)[1] for child in children] == [0] * 5
        assert len(list(flags.glob("won*"))) == 1


@pytest.mark.parametrize("former", VOID)
def test_killed_at_any_call_of_acquire_and_release_the_lock_is_free_at_once(
    tmp_path: Path, former: str, kill_points: KillPoints
) -> None:
    folders: list[Path] = []

    def prepare() -> Callable[[], object]:
        folders.append(tmp_path / str(len(folders)))
        folders[-1].mkdir()
        VOID[former](folders[-1])
        return lambda: lease_of(folders[-1]).acquire(0).release()

    for point in kill_points(prepare, lambda: folders[-1]):
        assert not is_held(folders[-1]), point
        with lease_of(folders[-1]).acquire(0) as lease:
            lease.check_held()
        left = {path.name.split(".")[0] for path in folders[-1].iterdir() if path.name != GUARD}
        # "" is the record that was being written: a leftover that the next builder sweeps.
        assert left <= {"", "displaced"}, point
        assert ("displaced" in left) == (former in {"expired", "unknown"}), point
    assert kill_points.last >= 4


@pytest.mark.parametrize("container", [False, True], ids=["same", "container"])
def test_an_owner_behind_another_mount_is_not_judged_by_a_flock_that_may_not_reach_here(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, container: bool
) -> None:
    """Of two FUSE mounts of one folder on one kernel, each has flocks of its own."""
    with holding(folder, tmp_path) as child:
        record = folder / RECORD
        document = json.loads(record.read_bytes())
        other = {"device": document["device"] + 1, **({"pid_namespace": "pid:[1]"} if container else {})}
        record.write_text(json.dumps({**document, **other}))
        monkeypatch.setattr(lock_record, "is_flocked", lambda _: False)
        check_busy(folder, f"process {child} on")
        silence(record, 61)
        if not container:
            # Its process id means the same here, so its process decides.
            check_busy(folder, f"process {child} on")
            return
        with lease_of(folder).acquire(0):
            assert names(folder) == [f"displaced.{document['token'][:16]}.json", GUARD, RECORD]


@pytest.mark.parametrize("change", ["another machine", "no machine id", "still locked"])
def test_a_machine_of_the_same_name_is_not_this_one_before_its_restart(
    folder: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    monkeypatch.setattr(lock_record, "machine_id", lambda: "" if change == "no machine id" else "1" * 32)
    theirs = {"another machine": "2" * 32, "no machine id": "", "still locked": "1" * 32}[change]
    owner = replace(foreign_owner(host=os.uname().nodename), machine_id=theirs)
    record = write_record(folder, owner, silent_s=61)
    with record.open("rb+") as handle:
        if change == "still locked":
            fcntl.flock(handle, fcntl.LOCK_EX)
        with lease_of(folder).acquire(0):
            assert names(folder) == [f"displaced.{owner.mark}.json", GUARD, RECORD]


def test_a_record_that_a_cache_of_names_hides_is_not_replaced(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client of a network file system can hold "no such name" for a minute."""
    owner = foreign_owner()
    write_record(folder, owner)
    monkeypatch.setattr(lease_module, "find_record", lambda *_: None)
    with pytest.raises(BusyError, match=f"process {owner.pid} on elsewhere"):
        lease_of(folder).acquire(0)
    assert read_owner(folder / RECORD) == owner
    assert names(folder) == [GUARD, RECORD]


def test_a_file_system_without_hard_links_will_do(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    check_free(folder)
