"""A power cut loses whatever was not synced: everything must be on disk before the link that makes it visible."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from genolewm_assets.errors import VcfError
from genolewm_assets.store.artefacts.build import build
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.files.atomic import write_atomic
from genolewm_assets_tests.worlds.store.plans import LOCATION, failing_plan, flip, make_plan


class Disk:
    """What a power cut would leave: contents of files and entries of folders as they were when last synced."""

    def __init__(self) -> None:
        self.synced: dict[int, object] = {}
        self.switches: list[str] = []

    def fsync(self, descriptor: int) -> None:
        self.synced[os.fstat(descriptor).st_ino] = self.content(Path(f"/proc/self/fd/{descriptor}"))

    @staticmethod
    def content(path: Path) -> object:
        if stat.S_ISDIR(path.stat().st_mode):
            return {entry.name: entry.inode() for entry in os.scandir(path)}
        return path.read_bytes()

    def holds(self, path: Path) -> bool:
        """Whether ``path``, and all below it, would survive as it is now."""
        inside = [path, *path.rglob("*")] if path.is_dir() else [path]
        return all(self.synced.get(p.stat().st_ino) == self.content(p) for p in inside)

    def reaches(self, path: Path) -> bool:
        """Whether the entry of ``path`` in its folder would survive."""
        entries = self.synced.get(path.parent.stat().st_ino)
        return isinstance(entries, dict) and entries.get(path.name) == path.lstat().st_ino


@pytest.fixture
def root(tmp_path: Path) -> Root:
    """Return a root of which nothing is on disk yet."""
    return Root(tmp_path / "root")


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    replace = os.replace

    def checked_replace(source: Any, target: Any) -> None:
        source, target = Path(source), Path(target)
        if source.is_symlink():
            generation = target.parent / source.readlink()
            assert disk.holds(generation), f"{generation} was not synced before it became visible"
            assert disk.reaches(generation)
            disk.switches.append(target.name)
        else:
            assert disk.holds(source), f"{source} was not synced before it became visible"
        replace(source, target)

    monkeypatch.setattr(os, "fsync", disk.fsync)
    monkeypatch.setattr(os, "replace", checked_replace)
    return disk


def test_a_generation_is_on_disk_before_its_link_and_the_link_when_the_build_returns(root: Root, disk: Disk) -> None:
    for version in ("1", "2"):
        published = build(root, make_plan(code_version=version))
        assert disk.reaches(root.path / LOCATION)
        for path in (published.directory, *published.directory.parents):
            if path.is_relative_to(root.path):
                assert disk.reaches(path), path
    assert disk.switches == ["chr21", "chr21"]


def test_a_healed_generation_is_on_disk_when_the_build_returns(root: Root, disk: Disk) -> None:
    published = build(root, make_plan())
    flip(published.file("variants.bin"), 1)
    (published.directory / "sub" / "extra.bin").unlink()
    (published.directory / "sub").rmdir()
    build(root, make_plan())
    assert disk.holds(published.directory)
    assert disk.reaches(published.directory)


def test_a_marker_is_on_disk_before_the_failure_is_reported_and_its_removal_after_success(
    root: Root, disk: Disk
) -> None:
    marker = root.path / "rejected" / LOCATION
    with pytest.raises(VcfError):
        build(root, failing_plan())
    assert disk.reaches(marker)
    folder = marker.parent.stat().st_ino
    build(root, make_plan())
    entries = disk.synced[folder]
    assert isinstance(entries, dict)
    assert marker.name not in entries


def test_a_single_file_is_on_disk_before_it_replaces_the_old_one(tmp_path: Path, disk: Disk) -> None:
    write_atomic(tmp_path / "a", b"1")
    write_atomic(tmp_path / "a", b"2")
    assert disk.holds(tmp_path / "a")
    assert disk.reaches(tmp_path / "a")
