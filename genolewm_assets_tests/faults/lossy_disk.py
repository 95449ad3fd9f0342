"""What a power cut at any moment may leave of a folder: all that was synced, and any part of what was not.

The model is POSIX's, which promises less than any one file system keeps:

* of a file, everything up to its last sync is there; of what was written since, any part, in any order, and its length
  may be any that it had; bytes that are missing inside it are zeros or what the disk held before;
* a change of entries (create, rename, unlink) is there once a folder it changed was synced; before that, each may be
  there or not, whatever came before or after it. One rename is one change, also between two folders.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from genolewm_assets_tests.faults import file_layer
from genolewm_assets_tests.faults.file_layer import DATA_CALLS, SYNC_CALLS, Call

#: A tree by path relative to its folder: bytes of a file, text of a link, None for a folder.
Tree = dict[str, bytes | str | None]
_BLOCK_BYTES, _AWAY_S = 48, 600.0


@dataclass
class _File:
    synced: bytes
    versions: list[bytes] = field(default_factory=list)

    @property
    def now(self) -> bytes:
        return self.versions[-1] if self.versions else self.synced


@dataclass
class _Change:
    """One call's change of entries: (folder, name) -> inode, None for none any more."""

    entries: dict[tuple[int, str], int | None]
    synced: bool = False


class Dead(BaseException):
    """The process was killed: nothing it still tries reaches the disk."""


class LossyDisk:
    """Follows a folder, all of which counts as synced at the beginning, and tells what a power cut leaves."""

    def __init__(self, folder: Path, draw: random.Random) -> None:
        self._folder, self._draw = folder, draw
        self._files: dict[int, _File] = {}
        self._links: dict[int, str] = {}
        self._folders: set[int] = set()
        self._base: dict[tuple[int, str], int] = {}
        self._now: dict[tuple[int, str], int] = {}
        self._changes: list[_Change] = []
        # Open, so that no inode number is given to a second file.
        self._open: dict[int, int] = {}
        self._look(folder.stat().st_ino, folder, first=True)
        self._base, self._root = dict(self._now), folder.stat().st_ino

    def follow(
        self,
        action: Callable[[], object],
        *,
        before: Callable[[LossyDisk, int], object] = lambda *_: None,
        die_at: int | None = None,
    ) -> bool:
        """Run an action, ``before`` each of its calls, killed at call ``die_at``; return whether it came to its end."""
        number = 0

        def at_call(call: Call) -> bool:
            nonlocal number
            if number == die_at:
                number += 1
                raise Dead
            if die_at is not None and number > die_at:
                # Files are closed on the way out; what is flushed then comes too late.
                if call.name in DATA_CALLS or call.name in SYNC_CALLS:
                    return True
                raise Dead
            self._look_around()
            before(self, number)
            if call.name in SYNC_CALLS:
                self._sync(os.fstat(call.target).st_ino)
            number += 1
            return False

        with pytest.MonkeyPatch.context() as patch:
            file_layer.install(patch, at_call)
            try:
                action()
            except Dead:
                self._look_around()
                return False
        self._look_around()
        before(self, number)
        return True

    def _look_around(self) -> None:
        """Take note of everything that happened since the last look: that was one call's doing."""
        before, self._now = self._now, {}
        self._look(self._folder.stat().st_ino, self._folder)
        changed = {entry: self._now.get(entry) for entry in {*before, *self._now}}
        changed = {entry: inode for entry, inode in changed.items() if before.get(entry) != inode}
        if changed:
            self._changes.append(_Change(changed))

    def _look(self, inode: int, folder: Path, *, first: bool = False) -> None:
        self._folders.add(inode)
        for entry in os.scandir(folder):
            found = entry.inode()
            self._now[inode, entry.name] = found
            if entry.is_symlink():
                self._links[found] = str(Path(entry.path).readlink())
            elif entry.is_dir():
                self._look(found, Path(entry.path), first=first)
            elif entry.is_file():
                self._look_at_file(found, Path(entry.path), first=first)

    def _look_at_file(self, inode: int, path: Path, *, first: bool) -> None:
        if inode not in self._open:
            self._open[inode] = _real_open(path, os.O_RDONLY)
        size = os.fstat(self._open[inode]).st_size
        data = os.pread(self._open[inode], size, 0)
        file = self._files.setdefault(inode, _File(data if first else b""))
        if data != file.now:
            file.versions.append(data)

    def _sync(self, inode: int) -> None:
        if inode in self._files:
            self._files[inode] = _File(self._files[inode].now)
        for change in self._changes:
            change.synced |= any(folder == inode for folder, _ in change.entries)

    def cut(self, *, losing: float) -> Tree:
        """Return a tree that a power cut now may leave; ``losing`` is the share of unsynced changes that are lost."""
        entries: dict[tuple[int, str], int | None] = dict(self._base)
        for change in self._changes:
            if change.synced or self._draw.random() >= losing:
                entries |= change.entries
        below: dict[int, list[tuple[str, int]]] = {}
        for (folder, name), inode in sorted(entries.items()):
            if inode is not None:
                below.setdefault(folder, []).append((name, inode))
        contents = {inode: self._left_of(file) for inode, file in self._files.items()}
        return dict(self._tree(self._root, "", below, contents))

    def _tree(
        self, folder: int, prefix: str, below: dict[int, list[tuple[str, int]]], contents: dict[int, bytes]
    ) -> Iterator[tuple[str, bytes | str | None]]:
        for name, inode in below.get(folder, ()):
            path = f"{prefix}{name}"
            if inode in self._links:
                yield path, self._links[inode]
            elif inode in contents:
                yield path, contents[inode]
            else:
                yield path, None
                yield from self._tree(inode, f"{path}/", below, contents)

    def _left_of(self, file: _File) -> bytes:
        draw, versions = self._draw, [file.synced, *file.versions]
        fate = draw.random()
        if len(versions) == 1 or fate < 0.2:
            return file.synced
        if fate < 0.5:
            return draw.choice(versions)
        # What every version begins with was synced, and nothing has touched it since.
        safe = _common(versions)
        length = draw.randint(safe, max(map(len, versions)))
        left = bytearray(draw.choice([bytes(length), draw.randbytes(length)]))
        for start in range(safe, length, _BLOCK_BYTES):
            source = draw.choice([*versions, versions[-1], *([b""] if start >= len(file.synced) else [])])
            stop = min(start + _BLOCK_BYTES, length, len(source))
            left[start:stop] = source[start:stop]
        left[:safe] = file.synced[:safe]
        return bytes(left)

    def close(self) -> None:
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open = {}


_real_open = os.open


def _common(versions: list[bytes]) -> int:
    """Return how many bytes all begin with."""
    columns = zip(*versions, strict=False)
    return next((at for at, values in enumerate(columns) if len(set(values)) > 1), min(map(len, versions)))


def lay(tree: Tree, folder: Path) -> Path:
    """Make a folder that holds a tree, as it is found some time after the power is back."""
    folder.mkdir()
    then_s = time.time() - _AWAY_S
    for name, content in tree.items():
        path = folder / name
        if content is None:
            path.mkdir()
        elif isinstance(content, str):
            path.symlink_to(content)
        else:
            path.write_bytes(content)
            os.utime(path, (then_s, then_s))
    return folder


@contextmanager
def lossy_disk(folder: Path, draw: random.Random) -> Iterator[LossyDisk]:
    """Yield a disk that follows a folder, which is made if missing."""
    folder.mkdir(exist_ok=True)
    disk = LossyDisk(folder, draw)
    try:
        yield disk
    finally:
        disk.close()
