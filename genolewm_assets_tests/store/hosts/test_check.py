"""The check of a shared root: two runs that meet in one folder, and what they say of file systems with faults."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from genolewm_assets.errors import MissingResourceError, ResourceError
from genolewm_assets.progress import NO_PROGRESS
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.files import remove_tree
from genolewm_assets.store.hosts import check as check_module
from genolewm_assets.store.hosts import looks as looks_module
from genolewm_assets.store.hosts import meeting as meeting_module
from genolewm_assets.store.hosts.check import RootCheck, check_root
from genolewm_assets.store.hosts.looks import LOOKS, Look
from genolewm_assets.store.hosts.meeting import Meeting
from genolewm_assets_tests.worlds.store.plans import new_root, picture

LOCKS = ("a lock held there is refused here", "a file changed by both in turn, under the lock")
UNDER_LOCK = "names changed under a lock, once it is taken"


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return new_root(tmp_path / "root")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorter pauses than on a network file system."""
    for name, seconds in {"_BEAT_S": 0.1, "_POLL_S": 0.002, "_LOOK_S": 0.05}.items():
        monkeypatch.setattr(meeting_module, name, seconds)


def both(folder: Path, *, one_machine: bool = True, limit_s: float = 0.3) -> tuple[RootCheck, RootCheck]:
    """Run the check twice at once; the two runs see the same verdicts, each from its side."""
    with ThreadPoolExecutor(2) as pool:
        runs = [
            pool.submit(check_root, folder, wait_s=30.0, one_machine=one_machine, limit_s=limit_s, progress=NO_PROGRESS)
            for _ in range(2)
        ]
        first, second = (run.result() for run in runs)
    mirrored = tuple(replace(point, here=point.there, there=point.here) for point in second.points)
    assert mirrored == first.points
    return first, second


def verdicts(check: RootCheck) -> dict[str, str]:
    return {point.point: point.verdict for point in check.points if point.verdict != "ok"}


def test_one_file_system_passes_and_nothing_is_left(root: Root, tmp_path: Path) -> None:
    before = sorted(root.path.rglob("*"))
    check, _ = both(root.path)
    assert verdicts(check) == {}
    assert check.passed
    assert len(check.points) == 7 + len(LOOKS)
    assert sorted(root.path.rglob("*")) == before
    empty = tmp_path / "no root yet"
    empty.mkdir()
    assert both(empty)[0].passed
    assert list(empty.iterdir()) == []


def test_two_runs_on_one_machine_prove_nothing(root: Root) -> None:
    check, _ = both(root.path, one_machine=False)
    assert verdicts(check) == {"two machines": "failed"}
    assert not check.passed


def test_locks_of_one_machine_only(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def guarded(path: Path, _: float) -> Iterator[int]:
        with path.open("a+b") as handle:
            yield handle.fileno()

    monkeypatch.setattr(check_module, "flock", lambda *_, **__: True)
    monkeypatch.setattr(check_module, "guarded", guarded)
    check, _ = both(root.path)
    assert verdicts(check) == dict.fromkeys((*LOCKS, UNDER_LOCK), "failed")
    held, *others = (point for point in check.points if point.verdict == "failed")
    assert held.here == "took a lock that is held (exclusive, shared)"
    assert "local_lock" in held.remedy
    assert {point.here for point in others} == {"not tried, because the locks failed"}


def test_locks_that_exclude_nobody_lose_additions(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def guarded(path: Path, _: float) -> Iterator[int]:
        with path.open("a+b") as handle:
            yield handle.fileno()

    monkeypatch.setattr(check_module, "guarded", guarded)
    monkeypatch.setattr(check_module, "_try_held_lock", lambda *_: ("", ""))
    assert verdicts(both(root.path)[0])[LOCKS[1]] == "failed"


@pytest.mark.parametrize(("seen_after_s", "verdict"), [(None, "failed"), (8.0, "late"), (4.0, "ok")])
def test_a_change_that_is_seen_late_or_never(
    root: Root, monkeypatch: pytest.MonkeyPatch, seen_after_s: float | None, verdict: str
) -> None:
    real = Look.seconds_until_seen

    def seconds(look: Look, folder: Path, limit_s: float) -> float | None:
        return seen_after_s if look.name == "a new name" else real(look, folder, limit_s)

    monkeypatch.setattr(Look, "seconds_until_seen", seconds)
    check, _ = both(root.path)
    assert verdicts(check) == ({} if verdict == "ok" else {"a new name": verdict})
    if verdict != "ok":
        (point,) = (point for point in check.points if point.verdict == verdict)
        assert "lookupcache=none" in point.remedy
        assert point.here == ("not seen in 0.3 s" if seen_after_s is None else "seen after 8.0 s")


@pytest.mark.parametrize("look", LOOKS, ids=[look.name for look in LOOKS])
def test_a_look_sees_the_change_and_nothing_before_it(tmp_path: Path, look: Look) -> None:
    look.prepare(tmp_path)
    assert look.seconds_until_seen(tmp_path, 0.0) is None
    look.change(tmp_path)
    assert look.seconds_until_seen(tmp_path, 0.0) is not None


def test_a_torn_file_is_found(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(path: Path, data: bytes) -> None:
        path.write_bytes(data[:-1])

    monkeypatch.setattr(check_module, "write_atomic", write)
    assert verdicts(both(root.path)[0]) == {"renamed files are whole": "failed"}


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
    (elsewhere / "old").write_text("")
    os.utime(elsewhere / "old", (0, 0))
    remove_tree(root.path / place)
    (root.path / place).symlink_to(elsewhere)
    with pytest.raises(ResourceError, match=f"{place}: is a link or file in the place of a folder"):
        check_root(root.path, wait_s=0.2, one_machine=True, progress=NO_PROGRESS)
    assert [path.name for path in elsewhere.iterdir()] == ["old"]


@pytest.mark.parametrize("killed", [True, False])
def test_a_run_that_ends_in_the_middle_is_missed(root: Root, monkeypatch: pytest.MonkeyPatch, *, killed: bool) -> None:
    monkeypatch.setattr(meeting_module, "_SILENT_S", 1.5)
    folder = root.path / "work" / ".root-check"

    def vanish() -> None:
        met = Meeting(folder)
        met.__enter__()
        met.meet(30.0, NO_PROGRESS)
        if killed:
            # What a killed process leaves: its file, which nobody changes any more.
            met._stopped.set()
        else:
            met.__exit__(RuntimeError, RuntimeError(), None)

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(vanish)
        with pytest.raises(ResourceError, match="ended in the middle of the check"):
            check_root(root.path, wait_s=30.0, one_machine=True, progress=NO_PROGRESS)
        other.result()
    left = [path.name for path in folder.iterdir()] if folder.exists() else []
    assert [name.partition(".")[0] for name in left] == (["run"] if killed else [])
    # The next two neither take it for a partner nor leave it.
    monkeypatch.setattr(meeting_module, "_LEFT_S", 0.9)
    assert both(root.path)[0].passed
    assert not folder.exists()


def test_of_three_runs_two_meet(root: Root) -> None:
    folder = root.path / "work" / ".root-check"

    def meet() -> str:
        with Meeting(folder) as met:
            met.meet(2.0, NO_PROGRESS)
            met.part()
            return met.partner.token

    with ThreadPoolExecutor(3) as pool:
        runs = [pool.submit(meet) for _ in range(3)]
        errors = [run.exception() for run in runs]
    assert sorted(type(err).__name__ for err in errors) == ["MissingResourceError", "NoneType", "NoneType"]
    assert not folder.exists()


def test_the_kind_of_the_mount_is_named(tmp_path: Path) -> None:
    assert check_module.mount_of(Path("/proc")).startswith("proc ")
    assert looks_module.NAMES
