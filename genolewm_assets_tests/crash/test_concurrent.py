"""Several processes at one location: builders exclude each other, readers see no mix, the killed block nobody."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

from genolewm_assets.store import ArtefactId, Root, build, collect_garbage, is_current, open_input, verify_root
from genolewm_assets_tests.crash.killing import outcome, start
from genolewm_assets_tests.store.plans import ARTEFACT, LOCATION, make_plan, new_root, picture


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.002)


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
    assert message.startswith(f"BusyError: {root.path / LOCATION}: another process")
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
