"""Several processes at one location: builders exclude each other, readers see no mix, the killed block nobody."""

from __future__ import annotations

import os
import random
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from genolewm_assets.errors import BusyError, VcfError
from genolewm_assets.store.artefacts.build import BuildPlan, build, is_current
from genolewm_assets.store.artefacts.gc import collect_garbage
from genolewm_assets.store.artefacts.inputs import open_input
from genolewm_assets.store.artefacts.published import ArtefactId
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.artefacts.verify import verify_root
from genolewm_assets_tests.faults.killing import outcome, start
from genolewm_assets_tests.worlds.store.leases import pretend_elsewhere, silence, wait_for
from genolewm_assets_tests.worlds.store.plans import ARTEFACT, LOCATION, make_plan, new_root, picture

pytestmark = pytest.mark.disk

WORK = "work/gnomad~4.1~chr21"


def test_of_several_builders_one_builds_and_the_others_reuse(root: Root, tmp_path: Path) -> None:
    tally = tmp_path / "tally"

    def work(_: Path) -> None:
        with tally.open("a") as handle:
            handle.write("built\n")
        time.sleep(0.1)

    plan = make_plan(before_write=work)
    children = [start(lambda: build(root, plan)) for _ in range(4)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    assert tally.read_text() == "built\n"
    assert is_current(root, plan)
    assert verify_root(root) == []


def test_a_builder_that_may_not_wait_is_told_who_is_in_the_way(root: Root, tmp_path: Path) -> None:
    started, finish = tmp_path / "started", tmp_path / "finish"

    def hold(_: Path) -> None:
        started.touch()
        wait_for(finish)

    child = start(lambda: build(root, make_plan(before_write=hold)))
    wait_for(started)
    try:
        message = outcome(lambda: build(root, make_plan(code_version="2"), lock_wait_s=0))
        other = build(root, make_plan(location="gnomad/4.1/chr20", artefact=ArtefactId("gnomad/shard", "chr20")))
    finally:
        finish.touch()
    owner = f"process {child} on {os.uname().nodename}, since 20"
    assert message.startswith(f"BusyError: {root.path / LOCATION}: another process ({owner}")
    assert not other.reused
    assert os.waitpid(child, 0)[1] == 0
    assert open_input(root, ARTEFACT, LOCATION).manifest.code_version == "1"


def test_a_killed_builder_frees_its_lock_and_the_next_sweeps_its_work(root: Root, tmp_path: Path) -> None:
    started = tmp_path / "started"

    def hang(_: Path) -> None:
        started.touch()
        time.sleep(60)

    child = start(lambda: build(root, make_plan(before_write=hang)))
    wait_for(started)
    assert [finding.kind for finding in verify_root(root)] == []
    assert collect_garbage(root) == []
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert [str(finding.kind) for finding in verify_root(root)] == ["abandoned"]
    assert not build(root, make_plan(), lock_wait_s=0).reused
    assert verify_root(root) == []


def test_readers_see_whole_versions_while_builders_publish_and_are_killed(root: Root, tmp_path: Path) -> None:
    plans = [
        make_plan({f"f{n}.bin": version.encode() * 5000 for n in range(3)}, code_version=version) for version in "12"
    ]
    for plan in plans:
        build(root, plan)
    seed = 20_260_226
    draw = random.Random(seed)

    def publish_for_ever() -> None:
        while True:
            for plan in plans:
                build(root, plan)

    seen: set[str] = set()
    for number in range(300):
        if number >= 25 and seen == {"1", "2"}:
            break
        child = start(publish_for_ever)
        deadline = time.monotonic() + draw.uniform(0.005, 0.06)
        while time.monotonic() < deadline:
            opened = open_input(root, ARTEFACT, LOCATION)
            version = opened.manifest.code_version
            assert {path.read_bytes()[:1].decode() for path in opened.directory.glob("*.bin")} == {version}
            seen.add(version)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert not any(finding.is_fault for finding in verify_root(root)), f"seed {seed}"
    assert seen == {"1", "2"}
    undisturbed = new_root(tmp_path / "undisturbed")
    for target in (root, undisturbed):
        build(target, plans[0])
        collect_garbage(target)
    assert picture(root) == picture(undisturbed)


def test_garbage_collection_beside_builders_takes_nothing_they_need(root: Root) -> None:
    plans = [make_plan(code_version=version) for version in "12"]

    def publish(rounds: int) -> None:
        for _ in range(rounds):
            for plan in plans:
                build(root, plan)
                open_input(root, ARTEFACT, LOCATION)

    child = start(lambda: publish(15))
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
        collect_garbage(root)
    assert ended == (child, 0)
    assert not any(finding.is_fault for finding in verify_root(root))
    assert is_current(root, plans[1])


def test_a_stopped_builder_keeps_its_lock_and_goes_on(root: Root, tmp_path: Path) -> None:
    started = tmp_path / "started"

    def stop(_: Path) -> None:
        started.touch()
        os.kill(os.getpid(), signal.SIGSTOP)

    child = start(lambda: build(root, make_plan(before_write=stop)))
    wait_for(started)
    os.waitid(os.P_PID, child, os.WSTOPPED | os.WNOWAIT)
    silence(root.path / WORK / "lock.json", 7 * 24 * 3600)
    with pytest.raises(BusyError, match=f"process {child} on"):
        build(root, make_plan(code_version="2"), lock_wait_s=0)
    assert collect_garbage(root) == []
    os.kill(child, signal.SIGCONT)
    assert os.waitpid(child, 0)[1] == 0
    assert open_input(root, ARTEFACT, LOCATION).manifest.code_version == "1"


class Sleeper:
    """A builder on another machine that is not heard of from the middle of its build on, until it is woken."""

    def __init__(self, root: Root, plan: BuildPlan, flags: Path) -> None:
        self._asleep, self._awake, self._said = (flags / name for name in ("asleep", "awake", "said"))
        write = plan.write

        def write_asleep(directory: Path) -> object:
            (directory / "mine").write_bytes(b"mine")
            self._asleep.touch()
            wait_for(self._awake)
            assert (directory / "mine").read_bytes() == b"mine", "its directory was not left alone"
            (directory / "mine").unlink()
            return write(directory)

        self._child = start(lambda: self._build(root, replace(plan, write=write_asleep)))
        wait_for(self._asleep)
        silence(root.path / WORK / "lock.json", 61)

    def _build(self, root: Root, plan: BuildPlan) -> None:
        pretend_elsewhere()
        try:
            text = str(build(root, plan))
        except Exception as err:  # noqa: BLE001 - the parent decides what it expected
            text = "\n".join([f"{type(err).__name__}: {err}", *getattr(err, "__notes__", [])])
        self._said.write_text(text)

    def wake(self) -> str:
        self._awake.touch()
        assert os.waitpid(self._child, 0)[1] == 0
        return self._said.read_text()


def refuse(_: Path) -> None:
    raise VcfError("in.vcf:3", "is malformed")


LATE: dict[str, tuple[BuildPlan, str]] = {
    "good": (make_plan(), "BusyError"),
    "resumable": (replace(make_plan(), resumable=True), "BusyError"),
    "failed its checks": (make_plan(passed=False), "BuildRejectedError"),
    "error": (make_plan(before_write=refuse), "VcfError"),
}


@pytest.mark.parametrize(("plan", "said"), LATE.values(), ids=LATE)
@pytest.mark.parametrize("taker_is_done", [True, False])
def test_a_builder_that_was_passed_over_publishes_nothing_and_the_taker_s_result_stands(
    root: Root, tmp_path: Path, plan: BuildPlan, said: str, taker_is_done: bool
) -> None:
    sleeper = Sleeper(root, plan, tmp_path)
    messages: list[str] = []

    def wake_meanwhile(directory: Path) -> None:
        (directory / "of the taker").touch()
        messages.append(sleeper.wake())
        (directory / "of the taker").unlink()

    if taker_is_done:
        taker = build(root, make_plan(code_version="2"), lock_wait_s=0)
        messages.append(sleeper.wake())
    else:
        taker = build(root, make_plan(code_version="2", before_write=wake_meanwhile), lock_wait_s=0)
    assert messages[0].startswith(f"{said}: "), messages
    assert "this process lost the lock because it did not renew it in time" in messages[0]
    assert ("its record is gone" if taker_is_done else f"(process {os.getpid()} on") in messages[0]
    assert not root.is_rejected(LOCATION)
    opened = open_input(root, ARTEFACT, LOCATION)
    assert (opened.directory, opened.manifest.code_version) == (taker.directory, "2")
    assert verify_root(root) == [] or plan.resumable
    assert [path for path in (root.path / "gnomad/4.1/.gen").iterdir() if path.is_dir()] == [taker.directory]


@pytest.mark.parametrize("elsewhere", [False, True])
def test_an_unfinished_build_is_continued_only_if_its_builder_is_known_to_be_dead(
    root: Root, tmp_path: Path, elsewhere: bool
) -> None:
    started, plan = tmp_path / "started", replace(make_plan(), resumable=True)

    def hang(directory: Path) -> None:
        (directory / "rows").write_bytes(b"rows")
        started.touch()
        time.sleep(60)

    def build_hanging() -> None:
        if elsewhere:
            pretend_elsewhere()
        build(root, replace(make_plan(before_write=hang), resumable=True))

    child = start(build_hanging)
    wait_for(started)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    silence(root.path / WORK / "lock.json", 61)
    (left,) = (root.path / WORK).glob("resume.*")
    found: list[bool] = []

    def look(directory: Path) -> None:
        found.append((directory / "rows").exists())
        (directory / "rows").unlink(missing_ok=True)
        assert directory != left

    build(root, replace(plan, write=make_plan(before_write=look).write), lock_wait_s=0)
    assert found == [not elsewhere]
    assert left.exists() == elsewhere
