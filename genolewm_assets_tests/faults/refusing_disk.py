"""A file system that lacks what it is told to lack: FUSE (``include/uapi/linux/fuse.h``), spoken directly."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import stat
import struct
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import pytest

from genolewm_assets_tests.faults.killing import outcome, start

LOOKUP, FORGET, GETATTR, SETATTR, READLINK, SYMLINK, MKDIR, UNLINK, RMDIR, RENAME = 1, 2, 3, 4, 5, 6, 9, 10, 11, 12
OPEN, READ, WRITE, RELEASE, FSYNC, FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR = 14, 15, 16, 18, 20, 25, 26, 27, 28, 29
FSYNCDIR, SETLK, SETLKW, CREATE, INTERRUPT, DESTROY, BATCH_FORGET, RENAME2 = 30, 32, 33, 35, 36, 38, 42, 45

_CLONE_NEWNS, _CLONE_NEWUSER, _MS_REC, _MS_PRIVATE = 0x00020000, 0x10000000, 16384, 1 << 18
_ATTR_SIZE, _ATTR_MTIME, _ATTR_MTIME_NOW = 8, 32, 256
_DIRECT_IO, _FLOCK_LOCKS = 1, 1 << 10
_REFUSED = "no file system can be mounted here"


class Refusals:
    """Error numbers by operation, modes that nothing can be renamed over, and what is reported as done and not done."""

    def __init__(
        self,
        calls: Mapping[int, int] | None = None,
        *,
        over: Callable[[int], bool] = lambda _: False,
        no_mmap: bool = False,
        ignored: Collection[int] = (),
    ) -> None:
        self.calls, self.over, self.no_mmap, self.ignored = dict(calls or {}), over, no_mmap, ignored


class _Server:
    def __init__(self, device: int, backing: Path, refusals: Refusals) -> None:
        self._device, self._refusals = device, refusals
        self._paths = {1: backing}
        self._answers: dict[int, Callable[[int, bytes], bytes]] = {
            **dict.fromkeys((FSYNC, FLUSH, FSYNCDIR, DESTROY), lambda _, __: b""),
            **dict.fromkeys((RELEASE, RELEASEDIR), self._release),
            **dict.fromkeys((OPEN, OPENDIR), self._open_node),
            INIT: self._init,
            LOOKUP: lambda node, body: self._entry(self._child(node, body)),
            GETATTR: lambda node, _: self._attributes(node),
            SETATTR: self._set_attributes,
            READLINK: lambda node, _: bytes(self._paths[node].readlink()),
            SYMLINK: self._symlink,
            MKDIR: self._mkdir,
            UNLINK: self._unlink,
            RMDIR: self._rmdir,
            RENAME: lambda node, body: self._rename(node, body, 8),
            RENAME2: lambda node, body: self._rename(node, body, 16),
            CREATE: self._create,
            READ: self._read,
            WRITE: self._write,
            READDIR: self._list,
        }
        self._answers |= {lock: lambda _, __: b"" for lock in (SETLK, SETLKW) if SETLK in refusals.ignored}

    def serve(self) -> None:
        """Answer the kernel until the disk is unmounted."""
        while True:
            try:
                request = os.read(self._device, (1 << 20) + 4096)
            except OSError as err:
                if err.errno == errno.ENODEV:
                    return
                raise
            _, call, unique, node = struct.unpack_from("<IIQQ", request)
            if call in {FORGET, BATCH_FORGET, INTERRUPT}:  # they want no answer
                continue
            code, answer = self._refusals.calls.get(call, 0 if call in self._answers else errno.ENOSYS), b""
            if not code:
                try:
                    answer = self._answers[call](node, request[40:])
                except OSError as err:
                    code = err.errno or errno.EIO
            os.write(self._device, struct.pack("<IiQ", 16 + len(answer), -code, unique) + answer)

    def _init(self, _: int, __: bytes) -> bytes:
        asked = SETLK in {*self._refusals.calls, *self._refusals.ignored}
        # Without this flag the kernel keeps the locks itself.
        flags = _FLOCK_LOCKS if asked else 0
        return struct.pack("<IIIIHHIIHHII24x", 7, 31, 1 << 17, flags, 8, 8, 1 << 17, 1, 0, 0, 0, 0)

    def _child(self, node: int, name: bytes) -> Path:
        return self._paths[node] / name.split(b"\0")[0].decode()

    def _entry(self, path: Path) -> bytes:
        path.lstat()
        node = next((number for number, known in self._paths.items() if known == path), max(self._paths) + 1)
        self._paths[node] = path
        # Times of validity of zero: the kernel asks every time.
        return struct.pack("<QQQQII", node, 0, 0, 0, 0, 0) + self._attributes(node)[16:]

    def _attributes(self, node: int) -> bytes:
        status = self._paths[node].lstat()
        times = [divmod(ns, 10**9) for ns in (status.st_atime_ns, status.st_mtime_ns, status.st_ctime_ns)]
        seconds, nanoseconds = zip(*times, strict=True)
        owner = (status.st_mode, status.st_nlink, status.st_uid, status.st_gid)
        numbers = (status.st_ino, status.st_size, status.st_blocks, *seconds, *nanoseconds, *owner)
        return struct.pack("<QII6Q10I", 0, 0, 0, *numbers, 0, 4096, 0)

    def _set_attributes(self, node: int, body: bytes) -> bytes:
        path = self._paths[node]
        (valid,), (size,) = struct.unpack_from("<I", body), struct.unpack_from("<Q", body, 16)
        if SETATTR not in self._refusals.ignored:
            if valid & _ATTR_SIZE:
                os.truncate(path, size)
            if valid & _ATTR_MTIME_NOW:
                os.utime(path)
            elif valid & _ATTR_MTIME:
                (seconds,), (nanoseconds,) = struct.unpack_from("<Q", body, 40), struct.unpack_from("<I", body, 60)
                os.utime(path, ns=(seconds * 10**9 + nanoseconds,) * 2)
        return self._attributes(node)

    def _symlink(self, node: int, body: bytes) -> bytes:
        path = self._child(node, body)
        path.symlink_to(body.split(b"\0")[1].decode())
        return self._entry(path)

    def _mkdir(self, node: int, body: bytes) -> bytes:
        path = self._child(node, body[8:])
        path.mkdir()
        return self._entry(path)

    def _unlink(self, node: int, body: bytes) -> bytes:
        self._child(node, body).unlink()
        return b""

    def _rmdir(self, node: int, body: bytes) -> bytes:
        self._child(node, body).rmdir()
        return b""

    def _rename(self, node: int, body: bytes, head: int) -> bytes:
        old, new = body[head:].split(b"\0")[:2]
        source, target = self._child(node, old), self._child(*struct.unpack_from("<Q", body), new)
        if os.path.lexists(target) and self._refusals.over(target.lstat().st_mode):
            raise OSError(errno.EEXIST, "stands there")
        source.rename(target)
        kept = {number: path for number, path in self._paths.items() if path != target}
        self._paths = {
            number: target / path.relative_to(source) if path.is_relative_to(source) else path
            for number, path in kept.items()
        }
        return b""

    def _open_node(self, node: int, body: bytes) -> bytes:
        (flags,) = struct.unpack_from("<I", body)
        return self._opened(os.open(self._paths[node], flags & ~os.O_NOFOLLOW))

    def _create(self, node: int, body: bytes) -> bytes:
        flags, mode = struct.unpack_from("<II", body)
        path = self._child(node, body[16:])
        handle = os.open(path, flags | os.O_CREAT, mode & 0o7777)
        return self._entry(path) + self._opened(handle)

    def _opened(self, handle: int) -> bytes:
        return struct.pack("<QIi", handle, _DIRECT_IO if self._refusals.no_mmap else 0, 0)

    @staticmethod
    def _release(_: int, body: bytes) -> bytes:
        os.close(*struct.unpack_from("<Q", body))
        return b""

    @staticmethod
    def _read(_: int, body: bytes) -> bytes:
        handle, offset, size = struct.unpack_from("<QQI", body)
        return os.pread(handle, size, offset)

    @staticmethod
    def _write(_: int, body: bytes) -> bytes:
        handle, offset, size = struct.unpack_from("<QQI", body)
        return struct.pack("<II", os.pwrite(handle, body[40 : 40 + size], offset), 0)

    def _list(self, node: int, body: bytes) -> bytes:
        (offset,) = struct.unpack_from("<Q", body, 8)
        names = [".", "..", *sorted(path.name for path in self._paths[node].iterdir())]
        listing = b""
        for number, name in list(enumerate(names, 1))[offset:]:
            raw = name.encode()
            listing += struct.pack("<QQII", 1, number, len(raw), 0) + raw + bytes(-len(raw) % 8)
        return listing


def _mount(folder: Path, backing: Path, refusals: Refusals) -> int:
    """Mount a disk for this process and its children; return the id of the process that serves it."""
    libc = ctypes.CDLL(None, use_errno=True)

    def must(answer: int) -> None:
        if answer:
            code = ctypes.get_errno()
            raise OSError(code, f"{_REFUSED} ({os.strerror(code)})")

    user, group = os.getuid(), os.getgid()
    must(libc.unshare(_CLONE_NEWNS | (_CLONE_NEWUSER if user else 0)))
    if user:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
            Path(f"/proc/self/{name}").write_text(text)
    must(libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None))
    try:
        device = os.open("/dev/fuse", os.O_RDWR)
    except OSError as err:
        raise OSError(err.errno, f"{_REFUSED} ({err.strerror})") from err
    options = f"fd={device},rootmode={stat.S_IFDIR:o},user_id=0,group_id=0,default_permissions"
    must(libc.mount(b"none", str(folder).encode(), b"fuse", 0, options.encode()))
    return start(lambda: _Server(device, backing, refusals).serve())


def on_refusing_disk(tmp_path: Path, refusals: Refusals, action: Callable[[Path], object]) -> tuple[str, list[str]]:
    """Run ``action`` in a child with such a disk; return the text of its result or error, and what was left on it."""
    folder, backing = tmp_path / "disk", tmp_path / "backing"
    folder.mkdir()
    backing.mkdir()

    def act() -> object:
        server = _mount(folder, backing, refusals)
        try:
            return action(folder)
        finally:
            os.kill(server, signal.SIGKILL)

    said = outcome(act)
    if _REFUSED in said:
        pytest.skip(said)
    return said, sorted(str(path.relative_to(backing)) for path in backing.rglob("*"))
