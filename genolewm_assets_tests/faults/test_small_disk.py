"""A small disk is gone after its block, also where it was refused, and a refusal says why."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from genolewm_assets_tests.faults.small_disk import SmallDisk, small_disk_here


def mounts_seen() -> str:
    return str(Path("/proc/thread-self/ns/mnt").readlink())


def test_a_small_disk_is_seen_in_its_block_only(tmp_path: Path) -> None:
    before, here = mounts_seen(), Path.cwd()
    with small_disk_here(tmp_path / "disk", "1m") as disk:
        if isinstance(disk, str):
            pytest.skip(disk)
        (tmp_path / "disk/file").write_bytes(b"x")
    assert (mounts_seen(), Path.cwd()) == (before, here)
    assert list((tmp_path / "disk").iterdir()) == []


def test_a_refused_mount_says_why_and_leaves_the_mounts_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        SmallDisk._must(SmallDisk._libc.umount(b"/nowhere"))

    monkeypatch.setattr(SmallDisk, "_mount", refused)
    before = mounts_seen()
    with small_disk_here(tmp_path / "disk", "1m") as disk:
        said = disk
    assert mounts_seen() == before
    assert isinstance(said, str)
    assert f"Errno {errno.EPERM if os.geteuid() else errno.ENOENT}" in said


def test_who_is_not_root_stays_in_his_namespaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1_000)
    monkeypatch.setattr(os, "getuid", lambda: 1_000)
    before = mounts_seen()
    with small_disk_here(tmp_path / "disk", "1m") as disk:
        assert mounts_seen() == before
    assert "not root" in str(disk)
