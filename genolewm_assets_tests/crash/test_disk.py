"""A disk that is full, read-only or limited: a clear error, the last good version untouched, nothing left behind."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from genolewm_assets.errors import ResourceError
from genolewm_assets.packages.reader import verify_package
from genolewm_assets.store.artefacts.build import build, is_current
from genolewm_assets.store.artefacts.gc import collect_garbage
from genolewm_assets.store.artefacts.inputs import open_input
from genolewm_assets.store.artefacts.published import ArtefactId
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.artefacts.verify import verify_root
from genolewm_assets_tests.faults.killing import outcome
from genolewm_assets_tests.faults.small_disk import SmallDisk, on_small_disk
from genolewm_assets_tests.worlds.lewm.dataset_world import publish_package
from genolewm_assets_tests.worlds.store.plans import ARTEFACT, LOCATION, make_plan, new_root, picture

OLD = make_plan()
NEW = make_plan({"variants.bin": b"new" * 4000}, code_version="2")
_WRITING = ("fsync", "rename", "replace", "link", "symlink", "mkdir")


def failing_at(number: int, code: int, patch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Let the n-th writing call, and all after it, fail; return the count of calls made."""
    calls = 0
    for name in _WRITING:
        real = getattr(os, name)

        def call(*args: object, _real: Callable[..., object] = real, **kwargs: object) -> object:
            nonlocal calls
            calls += 1
            if calls > number:
                raise OSError(code, os.strerror(code))
            return _real(*args, **kwargs)

        patch.setattr(os, name, call)
    return lambda: calls


@pytest.mark.parametrize(
    "code",
    [
        errno.ENOSPC,
        pytest.param(errno.EROFS, marks=pytest.mark.slow),
        pytest.param(errno.EDQUOT, marks=pytest.mark.slow),
    ],
)
def test_a_disk_that_stops_taking_writes_at_any_point(tmp_path: Path, code: int) -> None:
    undisturbed = new_root(tmp_path / "undisturbed")
    build(undisturbed, OLD)
    old_picture = picture(undisturbed)
    build(undisturbed, NEW)
    collect_garbage(undisturbed)
    for number in range(200):
        root = new_root(tmp_path / str(number))
        build(root, OLD)
        with pytest.MonkeyPatch.context() as patch:
            calls = failing_at(number, code, patch)
            try:
                build(root, NEW)
            except ResourceError as err:
                assert f"{LOCATION}: the storage refused to write ({os.strerror(code)})" in str(err)
            else:
                assert calls() <= number
                break
        assert root.leftovers(LOCATION) == []
        assert not root.is_rejected(LOCATION)
        assert not any(finding.is_fault for finding in verify_root(root))
        if is_current(root, OLD):
            collect_garbage(root)
            shown = {name: data for name, data in picture(root).items() if not name.endswith(".link")}
            assert shown == old_picture
        build(root, NEW)
        collect_garbage(root)
        assert picture(root) == picture(undisturbed), f"after the failure of call {number}"
    assert number > 15


def test_a_file_size_limit_met_in_the_middle_of_a_write(tmp_path: Path) -> None:
    root = Root(tmp_path / "root")
    build(root, OLD)
    before = picture(root)

    def limited() -> object:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        return build(root, NEW)

    assert outcome(limited).startswith(f"ResourceError: {root.path / LOCATION}: the storage refused to write (File too")
    assert picture(root) == before
    assert root.leftovers(LOCATION) == []


def test_on_a_full_disk_room_can_be_made_and_nothing_is_locked_for_good(tmp_path: Path) -> None:
    def fill_and_clear(disk: SmallDisk) -> object:
        root = new_root(disk.folder / "root", lock_wait_s=0)
        build(root, OLD)
        build(root, make_plan({"big.bin": bytes(1 << 20)}, code_version="2"))
        build(root, make_plan(code_version="3"))
        disk.leave(0)
        with pytest.raises(ResourceError, match=r"No space left on device.*genolewm gc"):
            build(root, NEW)
        assert not root.is_locked(LOCATION)
        removed = sum(entry.size_bytes for entry in collect_garbage(root))
        build(root, NEW)
        return removed > 1 << 20

    assert on_small_disk(tmp_path / "disk", fill_and_clear) == "True"


def as_somebody_else(action: Callable[[], object]) -> str:
    """The outcome for a user whom permissions bind."""

    def act() -> object:
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        return action()

    return outcome(act)


@pytest.fixture
def readable_folder() -> Iterator[Path]:
    """A folder that other users may enter; pytest's own may not."""
    folder = Path(tempfile.mkdtemp(prefix="read_only_"))
    folder.chmod(0o755)
    yield folder
    for inside, _, _ in os.walk(folder):
        Path(inside).chmod(0o755)
    shutil.rmtree(folder)


def test_a_read_only_root_can_be_read_verified_and_recognised_but_not_built_in(readable_folder: Path) -> None:
    root = new_root(readable_folder / "root")
    build(root, OLD)
    for path in [root.path, *root.path.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o555)

    assert as_somebody_else(lambda: root.claim("sample", "a" * 64)) == "None"
    assert as_somebody_else(lambda: verify_root(root)) == "[]"
    assert as_somebody_else(lambda: is_current(root, OLD)) == "True"
    assert as_somebody_else(lambda: collect_garbage(root, dry_run=True)) == "[]"
    refused = as_somebody_else(lambda: build(root, NEW))
    assert refused.startswith("ResourceError:")
    assert "Make the root writable" in refused


@pytest.mark.parametrize(
    "where",
    ["packages/R/.gen", "packages/R/notes", "packages", "gnomad/4.1", "gnomad/4.1/.gen", "work/gnomad~4.1~chr21"],
)
def test_with_a_folder_that_cannot_be_read_nothing_is_called_intact_and_nothing_goes(
    readable_folder: Path, where: str
) -> None:
    root = new_root(readable_folder / "root")
    pinned = build(root, OLD)
    package = ArtefactId("packages/split", "R")
    build(root, make_plan(artefact=package, location="packages/R/x", inputs=(pinned.ref,)))
    build(root, NEW)
    superseded = build(root, make_plan(code_version="3"))
    build(root, make_plan(code_version="4"))
    (root.path / "packages" / "R" / "notes").mkdir()
    hidden = root.path / where
    for folder, _, _ in os.walk(root.path):
        if os.getuid() == 0:
            os.chown(folder, 65534, 65534)
    hidden.chmod(0)
    for action in (
        lambda: collect_garbage(root, dry_run=True),
        lambda: collect_garbage(root),
        lambda: verify_root(root),
    ):
        said = as_somebody_else(action)
        assert said.startswith(f"ResourceError: {hidden}")
        assert "cannot be read (Permission denied)" in said
    hidden.chmod(0o755)
    assert pinned.directory.exists()
    assert superseded.directory.exists()
    assert len(collect_garbage(root)) == 2
    assert pinned.directory.exists()


def test_a_folder_of_a_generation_that_cannot_be_read_is_damage_of_that_generation(readable_folder: Path) -> None:
    root = new_root(readable_folder / "root")
    directory = build(root, OLD).directory
    (directory / "more").mkdir()
    for name, problems in {"sub": ["sub", "sub/extra.bin"], "more": ["more"]}.items():
        (directory / name).chmod(0)
        said = as_somebody_else(lambda: [finding.file for finding in verify_root(root) if finding.is_fault])
        opened = as_somebody_else(lambda: open_input(root, ARTEFACT, LOCATION))
        (directory / name).chmod(0o755)
        assert said == str(problems)
        assert opened.startswith("CorruptResourceError")
        assert "cannot be read (Permission denied). Rebuild gnomad/shard[chr21]." in opened


def test_a_manifest_of_a_package_that_cannot_be_read_is_a_finding(readable_folder: Path) -> None:
    directory = publish_package(readable_folder, encode=None)
    manifest = directory / "manifest.json"
    manifest.chmod(0)
    said = as_somebody_else(lambda: [str(finding) for finding in verify_package(directory)])
    manifest.chmod(0o644)
    assert f"{directory.name}/manifest.json: cannot be read (Permission denied)" in said
