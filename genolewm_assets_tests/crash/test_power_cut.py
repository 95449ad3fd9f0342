"""A power cut loses whatever was not synced: everything must be on disk before the link that makes it visible."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from genolewm_assets.errors import VcfError
from genolewm_assets.sources.files import Journal
from genolewm_assets.store.artefacts.build import BuildPlan, build
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.artefacts.verify import verify_root
from genolewm_assets.store.files.atomic import write_atomic
from genolewm_assets_tests.faults.lossy_disk import LossyDisk, Tree, lay, lossy_disk
from genolewm_assets_tests.worlds.store.plans import LOCATION, failing_plan, flip, make_plan, new_root, picture

pytestmark = [pytest.mark.usefixtures("no_syncs")]

OLD, NEW = make_plan(), make_plan(code_version="2")


def attempt(root: Root, plan: BuildPlan) -> None:
    with suppress(VcfError):
        build(root, plan)


def damage(root: Root) -> None:
    published = build(root, OLD)
    flip(published.file("variants.bin"), 1)
    (published.directory / "sub" / "extra.bin").unlink()
    (published.directory / "sub").rmdir()


#: Shares of the unsynced changes of entries that are lost. Where none is, the bytes of a file may be: drawn twice.
LOSING = (0.0, 0.0, 0.5, 1.0)
Action = Callable[[Root], object]
SUBJECTS: dict[str, tuple[Action, Action]] = {
    "first build": (lambda _: None, lambda root: build(root, OLD)),
    "rebuild": (lambda root: build(root, OLD), lambda root: build(root, NEW)),
    "healing": (damage, lambda root: build(root, OLD)),
    "rejection": (lambda root: build(root, OLD), lambda root: attempt(root, failing_plan())),
    "build after a rejection": (lambda root: attempt(root, failing_plan()), lambda root: build(root, OLD)),
    "one file": (
        lambda root: write_atomic(root.path / "a", b"1" * 200),
        lambda root: write_atomic(root.path / "a", b"2" * 200),
    ),
}


@pytest.mark.parametrize(("prepare", "action"), SUBJECTS.values(), ids=SUBJECTS)
def test_what_is_shown_is_on_disk_and_all_of_it_when_the_action_returns(
    tmp_path: Path, prepare: Action, action: Action
) -> None:
    root, cuts = new_root(tmp_path / "disk"), list[Tree]()
    prepare(root)

    def faults(left: Root) -> set[tuple[str, str | None, str | None]]:
        return {(each.location, each.file, each.got) for each in verify_root(left) if each.is_fault}

    def cut(disk: LossyDisk, _: int) -> None:
        cuts.extend(disk.cut(losing=share) for share in LOSING)

    faults_before, before = faults(root), picture(root)
    with lossy_disk(root.path, random.Random(5)) as disk:
        assert disk.follow(lambda: action(root), before=cut)
    after = picture(root)
    found = [Root(lay(tree, tmp_path / str(number))) for number, tree in enumerate(cuts)]
    for number, left in enumerate(found):
        assert faults(left) <= faults_before, (
            f"something half done is shown after a cut before call {number // len(LOSING)}"
        )
        for name, content in picture(left).items():
            if name in {*before, *after}:
                assert content in (before.get(name), after.get(name)), (
                    f"{name} after a cut before call {number // len(LOSING)}"
                )
    for left in found[-len(LOSING) :]:
        assert picture(left) == after
        assert left.is_rejected(LOCATION) == root.is_rejected(LOCATION)


def test_a_journal_is_as_it_was_saved_last_or_before(tmp_path: Path) -> None:
    disk_folder, cuts = tmp_path / "disk", list[Tree]()

    def save(more: bytes, state: int) -> None:
        with Journal.open(disk_folder / "scan", {"of": "a file"}) as journal:
            journal.save(more, state)

    def found(folder: Path) -> tuple[object, bytes]:
        with Journal.open(folder / "scan", {"of": "a file"}) as journal:
            assert not journal.dropped
            return journal.state, journal.path.read_bytes()

    save(b"one" * 100, 1)
    with lossy_disk(disk_folder, random.Random(5)) as disk:
        disk.follow(
            lambda: save(b"two" * 100, 2),
            before=lambda disk, _: cuts.extend(disk.cut(losing=share) for share in LOSING),
        )
        last = disk.cut(losing=1.0)
    states = [found(lay(tree, tmp_path / str(number))) for number, tree in enumerate(cuts)]
    assert set(states) == {(1, b"one" * 100), (2, b"one" * 100 + b"two" * 100)}
    assert found(lay(last, tmp_path / "last"))[0] == 2
