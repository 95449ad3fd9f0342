"""Builds that can be continued, and inputs opened by size: what array stores ask of builds."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from genolewm_assets.errors import CorruptResourceError, ResourceError, VcfError, VersionError
from genolewm_assets.store.artefacts.build import BuildPlan, BuildRejectedError, BuildReport, build, is_current
from genolewm_assets.store.artefacts.check_result import CheckResult
from genolewm_assets.store.artefacts.inputs import open_input
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets_tests.worlds.store.plans import ARTEFACT, LOCATION, flip, make_plan


def plan(between: Callable[[], object] = lambda: None, *, passed: bool = True) -> tuple[BuildPlan, list[list[str]]]:
    """A build in two steps with something in between, and what it found in its directory each time."""
    found: list[list[str]] = []

    def write(directory: Path) -> BuildReport:
        found.append(sorted(path.name for path in directory.iterdir()))
        (directory / "first.bin").write_bytes(b"1")
        between()
        (directory / "second.bin").write_bytes(b"2")
        return BuildReport(checks=(CheckResult("content_is_right", passed),))

    return replace(make_plan(), write=write, resumable=True), found


def interrupt(error: BaseException) -> Callable[[], object]:
    def stop() -> None:
        raise error

    return stop


FULL_DISK = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("CUDA out of memory"), FULL_DISK])
def test_an_interrupted_build_is_continued(root: Root, error: BaseException) -> None:
    interrupted, _ = plan(interrupt(error))
    with pytest.raises(ResourceError if isinstance(error, OSError) else type(error)):
        build(root, interrupted)
    assert [path.name[:7] for path in root.leftovers(LOCATION)] == ["resume."]
    assert not root.is_rejected(LOCATION)
    again, found = plan()
    published = build(root, again)
    assert found == [["first.bin"]]
    assert [entry.path for entry in published.manifest.files] == ["first.bin", "second.bin"]
    assert root.leftovers(LOCATION) == []
    assert published.manifest == build(Root(root.path / "other"), plan()[0]).manifest


@pytest.mark.parametrize("change", [{"code_version": "2"}, {"recipe": {"min_af": 0.02}}, {"resumable": False}])
def test_any_other_build_starts_from_nothing(root: Root, change: dict[str, Any]) -> None:
    with pytest.raises(KeyboardInterrupt):
        build(root, plan(interrupt(KeyboardInterrupt()))[0])
    again, found = plan()
    build(root, replace(again, **change))
    assert found == [[]]
    assert root.leftovers(LOCATION) == []


def test_what_can_be_continued_goes_when_the_published_one_is_reused(root: Root) -> None:
    published = build(root, plan()[0]).file("first.bin")
    flip(published, 0)
    with pytest.raises(KeyboardInterrupt):
        build(root, plan(interrupt(KeyboardInterrupt()))[0])
    flip(published, 0)
    assert len(root.leftovers(LOCATION)) == 1
    again, found = plan()
    assert is_current(root, again)
    assert build(root, again).reused
    assert found == []
    assert root.leftovers(LOCATION) == []


@pytest.mark.parametrize("how", ["error", "checks"])
def test_a_rejected_build_is_not_continued(root: Root, how: str) -> None:
    stop = interrupt(VcfError("in.vcf:3", "is malformed")) if how == "error" else lambda: None
    with pytest.raises((VcfError, BuildRejectedError)):
        build(root, plan(stop, passed=how == "error")[0])
    assert (root.rejected_path(LOCATION) / "first.bin").read_bytes() == b"1"
    assert root.leftovers(LOCATION) == []
    again, found = plan()
    build(root, again)
    assert found == [[]]


def test_what_another_version_began_is_neither_continued_nor_rejected(root: Root) -> None:
    refusal = VersionError("here", "holds an array store begun by another version of this code")
    with pytest.raises(VersionError):
        build(root, plan(interrupt(refusal))[0])
    assert not root.is_rejected(LOCATION)
    again, found = plan()
    build(root, again)
    assert found == [["first.bin"]]


def test_nor_one_that_could_not_be_kept_among_the_rejected(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        # By its full name the function `build` stands in the way of its module.
        patch.setattr(import_module("genolewm_assets.store.artefacts.build"), "reject", refuse)
        with pytest.raises(VcfError, match="is malformed"):
            build(root, plan(interrupt(VcfError("in.vcf:3", "is malformed")))[0])
    assert root.leftovers(LOCATION) == []


def test_a_link_in_place_of_the_work_directory_is_not_followed(root: Root, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        build(root, plan(interrupt(KeyboardInterrupt()))[0])
    (left,) = root.leftovers(LOCATION)
    left.rename(tmp_path / "elsewhere")
    left.symlink_to(tmp_path / "elsewhere")
    again, found = plan()
    build(root, again)
    assert found == [[]]
    assert (tmp_path / "elsewhere" / "first.bin").exists()


SEEN_BY_SIZE: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut": (lambda d: os.truncate(d / "variants.bin", 5), r"variants\.bin\): size differs"),
    "missing": (lambda d: (d / "rejects.bin").unlink(), r"rejects\.bin\): file is missing"),
    "extra": (lambda d: (d / "more.bin").write_bytes(b""), r"more\.bin\): is not listed"),
    "manifest": (lambda d: flip(d / "manifest.json", 40), "Rebuild gnomad"),
}


@pytest.mark.parametrize(("damage", "message"), SEEN_BY_SIZE.values(), ids=SEEN_BY_SIZE)
def test_by_size_an_input_is_opened_without_reading_it_and_what_sizes_tell_is_found(
    root: Root, damage: Callable[[Path], object], message: str
) -> None:
    directory = build(root, make_plan()).directory
    flip(directory / "variants.bin", 7)
    assert open_input(root, ARTEFACT, LOCATION, contents="sizes").directory == directory
    with pytest.raises(CorruptResourceError, match="content differs"):
        open_input(root, ARTEFACT, LOCATION)
    damage(directory)
    with pytest.raises(CorruptResourceError, match=message):
        open_input(root, ARTEFACT, LOCATION, contents="sizes")
