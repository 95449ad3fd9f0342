"""Derived files are made once, again if they are damaged, and go with their generation or when nobody uses them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from genolewm_assets.store.artefacts.derived import DERIVED, DerivedFiles
from genolewm_assets.store.artefacts.gc import collect_garbage
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.artefacts.verify import verify_root
from genolewm_assets_tests.store.artefacts.test_gc import build_version


class Maker:
    def __init__(self) -> None:
        self.made = 0

    def __call__(self, path: Path) -> None:
        self.made += 1
        path.write_bytes(b"derived")


def get(folder: Path, make: Maker) -> Path:
    """Ask as a new process does."""
    path = DerivedFiles(folder).get("a/index", make)
    assert path.read_bytes() == b"derived"
    return path


def test_a_file_is_made_once_and_again_only_if_it_is_not_as_recorded(tmp_path: Path) -> None:
    make = Maker()
    path = get(tmp_path / "derived", make)
    get(tmp_path / "derived", make)
    assert make.made == 1
    path.write_bytes(b"another")
    get(tmp_path / "derived", make)
    path.with_name("index.sha256").unlink()
    get(tmp_path / "derived", make)
    path.unlink()
    get(tmp_path / "derived", make)
    assert make.made == 4


def test_a_maker_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(path: Path) -> None:
        path.write_bytes(b"half")
        raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        DerivedFiles(tmp_path).get("index", fail)
    assert list(tmp_path.iterdir()) == []


def test_garbage_collection_keeps_what_is_used_and_verification_leaves_it_alone(root: Root) -> None:
    root.claim("sample", "a" * 64)
    published, make = build_version(root, "1"), Maker()
    folder = root.path / DERIVED
    kept = get(folder / published.manifest.sha256[:12], make)
    gone, killed = get(folder / "0123456789ab", make), kept.with_name(".index.0a1b2c3d.tmp")
    killed.write_bytes(b"half")
    os.utime(killed, (time.time() - 7_200,) * 2)
    records = [path.with_name("index.sha256") for path in (kept, gone)]
    assert verify_root(root) == []
    removed = {root.path / item.path for item in collect_garbage(root)}
    assert removed == {gone, records[1], killed}
    # A build uses a file that was made long ago.
    os.utime(kept, (time.time() - 40 * 86_400,) * 2)
    get(kept.parents[1], make)
    assert collect_garbage(root) == []
    os.utime(kept, (time.time() - 40 * 86_400,) * 2)
    assert {root.path / item.path for item in collect_garbage(root)} == {kept, records[0]}
