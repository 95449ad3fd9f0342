"""The check of a shared root: two runs that meet in one folder, and what they say of file systems with faults."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from genolewm_assets.errors import BusyError, MissingResourceError, ResourceError
from genolewm_assets.progress import NO_PROGRESS
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.files import remove_tree
from genolewm_assets.store.hosts import check as hosts
from genolewm_assets.store.hosts import meeting
from genolewm_assets.store.hosts.check import LOOKS, RootCheck, change, check_root, prepare, read_many, sees, write_many
from genolewm_assets.store.hosts.meeting import joined
from genolewm_assets_tests.worlds.store.plans import new_root, picture

LOCK = "a lock held there is refused here"


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return new_root(tmp_path / "root")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meeting, "POLL_S", 0.002)


def both(folder: Path, *, one_machine: bool = True, limit_s: float = 0.3) -> RootCheck:
    """Run the check twice at once; the two runs see the same verdicts, each from its side."""
    options: dict[str, Any] = {"one_machine": one_machine, "limit_s": limit_s, "progress": NO_PROGRESS}
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(check_root, folder, wait_s=30.0, **options) for _ in range(2)]
        first, second = (run.result() for run in runs)
    assert tuple(replace(point, here=point.there, there=point.here) for point in second.points) == first.points
    return first


def faults(check: RootCheck) -> dict[str, str]:
    assert check.passed == all(point.verdict == "ok" for point in check.points)
    return {point.point: point.verdict for point in check.points if point.verdict != "ok"}


def test_one_file_system_passes_and_nothing_is_left(root: Root, tmp_path: Path) -> None:
    before = sorted(root.path.rglob("*"))
    check = both(root.path)
    assert faults(check) == {}
    assert len(check.points) == 5 + len(LOOKS)
    assert sorted(root.path.rglob("*")) == before
    empty = tmp_path / "no root yet"
    empty.mkdir()
    assert both(empty).passed
    assert list(empty.iterdir()) == []
    assert faults(both(root.path, one_machine=False)) == {"two machines": "failed"}


@contextmanager
def excluding_nobody(path: Path, _: float) -> Iterator[None]:
    path.touch()
    yield


@contextmanager
def never_free(path: Path, _: float) -> Iterator[None]:
    path.touch()
    if sees("a new name", path.parent):
        raise BusyError(str(path), "busy")
    yield


@pytest.mark.parametrize(("guarded", "seen"), [(excluding_nobody, "took a lock that"), (never_free, "still refused")])
def test_locks_of_one_machine_only(
    root: Root, monkeypatch: pytest.MonkeyPatch, guarded: Callable[..., object], seen: str
) -> None:
    monkeypatch.setattr(hosts, "guarded", guarded)
    check = both(root.path)
    assert faults(check) == dict.fromkeys([LOCK, *(LOOKS if guarded is never_free else ())], "failed")
    (point,) = (point for point in check.points if point.point == LOCK)
    assert point.here.startswith(seen)
    assert "local_lock" in point.remedy


@pytest.mark.parametrize(
    ("name", "never"), [("a new name", True), ("appended bytes", False), ("the renewal of a lock", False)]
)
def test_a_change_is_seen_late_or_never(root: Root, monkeypatch: pytest.MonkeyPatch, name: str, *, never: bool) -> None:
    real, first = sees, dict[Path, float]()

    def see(each: str, folder: Path) -> bool:
        seen = real(each, folder)
        if each == name and seen:
            seen = not never and time.monotonic() - first.setdefault(folder, time.monotonic()) > 0.05
        return seen

    monkeypatch.setattr(hosts, "sees", see)
    check = both(root.path)
    assert faults(check) == {name: "failed" if never else "late"}
    (point,) = (point for point in check.points if point.verdict != "ok")
    assert point.here.startswith("not seen in 0.3 s" if never else "seen after 0.")
    assert point.remedy == LOOKS[name][1]


def test_a_look_sees_the_change_and_nothing_before_it(tmp_path: Path) -> None:
    prepare(tmp_path)
    assert [name for name in LOOKS if sees(name, tmp_path)] == []
    change(tmp_path)
    assert [name for name in LOOKS if sees(name, tmp_path)] == list(LOOKS)


def test_a_file_that_has_its_name_before_its_content_fails(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_torn(folder: Path) -> None:
        path = folder / hashlib.sha256(b"content").hexdigest()
        path.touch()
        time.sleep(0.1)
        path.write_bytes(b"content")

    monkeypatch.setattr(hosts, "write_many", write_torn)
    assert faults(both(root.path)) == {"renamed files are whole": "failed"}
    monkeypatch.setattr(hosts, "write_many", lambda _: None)
    check = both(root.path)
    assert [point.here for point in check.points if point.verdict == "failed"] == ["0 of 20 files seen in 0.3 s"]


def test_only_names_that_are_new_are_read(tmp_path: Path) -> None:
    write_many(tmp_path)
    seen = set[str]()
    assert read_many(tmp_path, seen)
    assert len(seen) == 20
    (tmp_path / next(iter(seen))).write_bytes(b"")
    assert read_many(tmp_path, seen)
    assert not read_many(tmp_path, set())


@pytest.mark.parametrize(("skew", "point"), [("_CLOCKS_S", "clocks of the machines"), ("_STAMPS_S", "times of files")])
def test_times_that_differ_too_much(root: Root, monkeypatch: pytest.MonkeyPatch, skew: str, point: str) -> None:
    monkeypatch.setattr(hosts, skew, -3600.0)
    assert faults(both(root.path)) == {point: "failed"}


class Ahead:
    """A run whose partner states another time of its clock and of its file."""

    def __init__(self, clock_s: float, stamp_s: float) -> None:
        self._ahead = clock_s, stamp_s

    def say(self, said: list[float] | None) -> list[float] | None:
        return said and [mine + ahead for mine, ahead in zip(said, self._ahead, strict=True)]


def test_times_are_apart_in_seconds_whoever_is_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts.time, "time", lambda: 1_000.0)
    verdicts = {
        (1.5, 4.0): [("", "1.5 s apart"), ("", "4.0 s apart")],
        (3.0, 60.0): [("failed", "3.0 s apart"), ("failed", "60.0 s apart")],
        # The partner may have spoken a second ago.
        (-2.5, -4.0): [("", "1.5 s apart"), ("", "4.0 s apart")],
        (-4.0, -60.0): [("failed", "3.0 s apart"), ("failed", "60.0 s apart")],
    }
    for ahead, expected in verdicts.items():
        found = hosts._compare_clocks(Ahead(*ahead), tmp_path)  # type: ignore[arg-type]
        assert [each[:2] for each in found.values()] == expected, ahead


def test_alone_it_says_so(root: Root) -> None:
    before = picture(root)
    with pytest.raises(MissingResourceError, match=r"no second run of this check was seen within 0\.5 s"):
        check_root(root.path, wait_s=0.5, one_machine=True, progress=NO_PROGRESS)
    assert not (root.path / "work" / ".root-check").exists()
    assert picture(root) == before
    with pytest.raises(MissingResourceError, match="no such folder"):
        check_root(root.path / "none", wait_s=0.5, one_machine=True, progress=NO_PROGRESS)


@pytest.mark.parametrize("place", ["work", "work/.root-check"])
def test_a_link_in_the_place_of_its_folder_is_not_followed(root: Root, tmp_path: Path, place: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "run.old.json").write_text("")
    os.utime(elsewhere / "run.old.json", (0, 0))
    remove_tree(root.path / place)
    (root.path / place).symlink_to(elsewhere)
    with pytest.raises(ResourceError, match=f"{place}: is a link or file in the place of a folder"):
        check_root(root.path, wait_s=0.2, one_machine=True, progress=NO_PROGRESS)
    assert [path.name for path in elsewhere.iterdir()] == ["run.old.json"]


@pytest.mark.parametrize("killed", [True, False])
def test_a_run_that_ends_in_the_middle_is_missed(root: Root, monkeypatch: pytest.MonkeyPatch, *, killed: bool) -> None:
    monkeypatch.setattr(meeting, "_SILENT_S", 1.5)
    folder = root.path / "work" / ".root-check"

    def vanish() -> None:
        with joined(folder) as run:
            run.meet(30.0, NO_PROGRESS)
            # Answered only by a run that has also met: one that leaves before that was never there.
            run.say("a mount")
            left = run.path_of(run.token).read_bytes()
        if killed:
            run.path_of(run.token).write_bytes(left)
            (folder / f"try.{run.token}").mkdir()

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(vanish)
        with pytest.raises(ResourceError, match="ended in the middle of the check"):
            check_root(root.path, wait_s=30.0, one_machine=True, progress=NO_PROGRESS)
        other.result()
    left = [path.name for path in folder.iterdir()] if folder.exists() else []
    assert sorted(name.partition(".")[0] for name in left) == (["run", "try"] if killed else [])
    # The next two neither take it for a partner nor leave it.
    monkeypatch.setattr(meeting, "_LEFT_S", 0.9)
    assert both(root.path).passed
    assert not folder.exists()


class UntilTwoHaveMet:
    """A listener that ends the wait of the third run."""

    met = 0

    def advance(self, done: int, total: int | None, unit: str) -> None:
        if self.met >= 2:
            raise MissingResourceError(unit, f"alone after {done} of {total} s", remedy="")


def test_of_three_runs_two_meet(root: Root) -> None:
    folder, all_here, waiting = root.path / "work" / ".root-check", Barrier(3), UntilTwoHaveMet()

    def meet() -> None:
        with joined(folder) as run:
            all_here.wait(30)
            run.meet(60.0, waiting)
            run.part()
            waiting.met += 1

    with ThreadPoolExecutor(3) as pool:
        errors = [run.exception() for run in [pool.submit(meet) for _ in range(3)]]
    assert sorted(type(err).__name__ for err in errors) == ["MissingResourceError", "NoneType", "NoneType"]
    assert not folder.exists()


def test_the_kind_of_the_mount_is_named() -> None:
    assert hosts.mount_of(Path("/proc")).startswith("proc ")
