"""A file system of a set size, mounted where only one child process, or one thread and its children, see it."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from genolewm_assets_tests.faults.killing import outcome

_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_RDONLY, _MS_REMOUNT, _MS_REC, _MS_PRIVATE = 1, 32, 16384, 1 << 18
_REFUSED = "no file system can be mounted here"
_NAMESPACE = Path("/proc/thread-self/ns/mnt")


class SmallDisk:
    """A tmpfs; its size can be changed while it is in use."""

    _libc = ctypes.CDLL(None, use_errno=True)

    def __init__(self, folder: Path, size: str = "64m") -> None:
        self.folder = folder
        self._enter_namespace()
        self._mount("tmpfs", "/", _MS_REC | _MS_PRIVATE, "")
        self._mount("tmpfs", str(folder), 0, f"size={size}")

    @property
    def used_bytes(self) -> int:
        state = os.statvfs(self.folder)
        return (state.f_blocks - state.f_bfree) * state.f_frsize

    def leave(self, free_bytes: int) -> None:
        """Let there be room for so much more than what is there."""
        self._remount(0, f"size={self.used_bytes + free_bytes}")

    def set_read_only(self, *, read_only: bool) -> None:
        self._remount(_MS_RDONLY if read_only else 0, "")

    def _remount(self, flags: int, options: str) -> None:
        # A machine that could mount it can do this: a refusal is a fault of the test, and none to skip it for.
        answer = self._libc.mount(b"none", bytes(self.folder), b"tmpfs", _MS_REMOUNT | flags, options.encode())
        self._must(answer, "the disk cannot be changed")

    def _enter_namespace(self) -> None:
        """Leave the mounts of other processes alone; who is not root becomes it in a user namespace of his own."""
        user, group = os.getuid(), os.getgid()
        self._must(self._libc.unshare(_CLONE_NEWNS | (_CLONE_NEWUSER if user else 0)))
        if user:
            for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
                Path(f"/proc/self/{name}").write_text(text)

    def _mount(self, kind: str, where: str, flags: int, options: str) -> None:
        self._must(self._libc.mount(b"none", where.encode(), kind.encode(), flags, options.encode()))

    @staticmethod
    def _must(answer: int, problem: str = _REFUSED) -> None:
        if answer:
            code = ctypes.get_errno()
            raise OSError(code, f"{problem} ({os.strerror(code)})")


@contextmanager
def small_disk_here(folder: Path, size: str) -> Iterator[SmallDisk | str]:
    """Mount a small disk for this thread and the processes that it starts; where that is refused, say why.

    Only root may: who is not would need a user namespace of his own, and a thread does not return from one.
    """
    folder.mkdir(exist_ok=True)
    if os.geteuid():
        yield str(OSError(errno.EPERM, f"{_REFUSED} by who is not root"))
        return
    before = os.open(_NAMESPACE, os.O_RDONLY)
    disk: SmallDisk | str
    try:
        try:
            disk = SmallDisk(folder, size)
        except OSError as err:
            disk = str(err)
        yield disk
    finally:
        _return_to(before)
        os.close(before)


def _return_to(namespace: int) -> None:
    """Let this thread see other mounts again, by the descriptor of their namespace."""
    if os.path.samestat(_NAMESPACE.stat(), os.fstat(namespace)):
        return  # it was refused another one, and would be refused this one too
    here = Path.cwd()
    SmallDisk._must(SmallDisk._libc.setns(namespace, _CLONE_NEWNS), "the mounts of before cannot be entered")
    os.chdir(here)


def on_small_disk(folder: Path, action: Callable[[SmallDisk], object]) -> str:
    """Run ``action`` in a child with a small disk at ``folder``; return the text of its result, or of its error."""
    folder.mkdir(exist_ok=True)
    said = outcome(lambda: action(SmallDisk(folder)))
    if _REFUSED in said:
        pytest.skip(said)
    return said
