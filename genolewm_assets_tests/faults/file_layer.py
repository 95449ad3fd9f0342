"""Every call by which Python code changes what is on disk, reported before it happens; compiled code is not seen."""

from __future__ import annotations

import builtins
import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

#: Calls of `os` that change a directory or begin something; `shutil`, `pathlib` and `tempfile` go through them too.
ENTRY_CALLS = ("rename", "replace", "link", "symlink", "mkdir", "unlink", "remove", "rmdir", "open")
TWO_PATHS = ("rename", "replace", "link", "symlink")
SYNC_CALLS = ("fsync", "fdatasync")
#: Calls that change a file by its descriptor or path; those of files opened with `open` are reported as well.
DATA_CALLS = ("write", "pwrite", "writev", "pwritev", "truncate", "ftruncate", "posix_fallocate")
#: Flags of `os.open` that allow a file to change; to open a folder is reported anyhow, as the step before its sync.
_CHANGING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


@dataclass(frozen=True, slots=True)
class Call:
    """A call that is about to happen, by its name in `os`; of a write, ``write_part`` does so many bytes."""

    name: str
    target: Any
    write_part: Callable[[int], object] | None = None
    size_bytes: int = 0
    other: Any = None

    def refusal(self, code: int) -> OSError:
        """Return the error as the system raises it: with the paths, which calls by descriptor do not know."""
        if isinstance(self.target, int):
            return OSError(code, os.strerror(code))
        second = () if self.other is None else (None, os.fspath(self.other))
        return OSError(code, os.strerror(code), os.fspath(self.target), *second)

    @property
    def needs_room(self) -> bool:
        """Whether it may need room on the disk: opening or removing what is there does not."""
        there = self.name == "open" and (not isinstance(self.target, str | os.PathLike) or os.path.lexists(self.target))
        return not there and self.name not in {"unlink", "remove", "rmdir"}


#: Told of a call before it happens; True to leave it out, as if it had worked. May raise, or not return.
AtCall = Callable[[Call], bool]


def install(patch: pytest.MonkeyPatch, at_call: AtCall) -> None:
    """Report every such call to ``at_call``; nothing is forced to the real disk, which no such test needs."""
    for name in (*ENTRY_CALLS, *DATA_CALLS):
        patch.setattr(os, name, _reported(name, getattr(os, name), at_call))
    for name in SYNC_CALLS:
        patch.setattr(os, name, lambda descriptor, _name=name: at_call(Call(_name, descriptor)) and None)
    opener = _opener(at_call)
    patch.setattr(io, "open", opener)
    patch.setattr(builtins, "open", opener)


def _reported(name: str, real: Callable[..., Any], at_call: AtCall) -> Callable[..., Any]:
    several = name.endswith("v")

    def call(*args: Any, **kwargs: Any) -> Any:
        if name not in {"write", "pwrite", "writev", "pwritev"}:
            if name == "open" and not args[1] & _CHANGING and not Path(args[0]).is_dir():
                return real(*args, **kwargs)
            other = args[1] if name in TWO_PATHS else None
            return None if at_call(Call(name, args[0], other=other)) else real(*args, **kwargs)
        descriptor, data, *rest = args
        whole = b"".join(map(bytes, data)) if several else bytes(data)

        def part(size: int) -> object:
            return real(descriptor, [whole[:size]] if several else whole[:size], *rest)

        return len(whole) if at_call(Call(name, descriptor, part, len(whole))) else real(*args, **kwargs)

    return call


def _opener(at_call: AtCall) -> Callable[..., Any]:
    real = io.open

    class File(io.FileIO):
        def write(self, data: Any, /) -> int:
            whole = bytes(data)
            call = Call("write", self.fileno(), lambda size: super(File, self).write(whole[:size]), len(whole))
            return len(whole) if at_call(call) else super().write(data)

        def truncate(self, size: int | None = None, /) -> int:
            return 0 if at_call(Call("ftruncate", self.fileno())) else super().truncate(size)

    def open_file(file: Any, mode: str = "r", buffering: int = -1, *args: Any, **kwargs: Any) -> Any:
        # With an opener it is a temporary file without a name, which ends with its process.
        if not set(mode) & set("wax+") or kwargs.get("opener") is not None:
            return real(file, mode, buffering, *args, **kwargs)
        at_call(Call("open", file))
        raw = File(file if isinstance(file, int) else os.fspath(file), mode.translate({ord("b"): None, ord("t"): None}))
        if buffering == 0:
            return raw
        kind = cast("Any", io.BufferedRandom if "+" in mode else io.BufferedWriter)
        buffered = kind(raw, buffering if buffering > 1 else io.DEFAULT_BUFFER_SIZE)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, *args, **kwargs)

    return open_file


def without_syncs(patch: pytest.MonkeyPatch) -> None:
    """Leave syncs out: what a kill leaves does not depend on them, and they take nearly all the time."""
    for name in SYNC_CALLS:
        patch.setattr(os, name, lambda _: None)
