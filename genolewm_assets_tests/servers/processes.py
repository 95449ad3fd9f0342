"""Processes of this machine as the kernel shows them in ``/proc``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

FoundT = TypeVar("FoundT")

_LOOK_S = 0.3


@contextmanager
def watching(note: Callable[[int, list[bytes]], None]) -> Iterator[None]:
    """Pass every process, three times a second, with the words of its command to ``note`` until the block ends.

    What ``note`` raises is raised at the end of the block, ``OSError`` apart: the process has ended meanwhile.
    """
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_LOOK_S):
            for pid, words in running_commands():
                with suppress(OSError):
                    note(pid, words)

    with ThreadPoolExecutor(1, thread_name_prefix="witness") as threads:
        watch_ended = threads.submit(watch)
        try:
            yield
        finally:
            ended.set()
        watch_ended.result()


def running_commands() -> Iterator[tuple[int, list[bytes]]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                yield int(entry.name), command_of(int(entry.name))


def command_of(pid: int) -> list[bytes]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")


def variables_of(pid: int) -> dict[str, str]:
    """Return the environment that a process was started with; empty if it has ended."""
    with suppress(OSError):
        entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        return dict(entry.decode(errors="replace").partition("=")[::2] for entry in entries if b"=" in entry)
    return {}


def nearest_above(pid: int, told: Callable[[list[bytes]], FoundT | None]) -> FoundT | None:
    """Return what the command of the nearest ancestor tells that tells anything; None if none does."""
    with suppress(OSError):
        while pid > 1:
            if (found := told(command_of(pid))) is not None:
                return found
            pid = status_of(pid)[1]
    return None


def is_running(pid: int) -> bool:
    return status_of(pid)[0] not in "ZX"


def status_of(pid: int) -> tuple[str, int, int]:
    """Return state, parent and session of a process; state ``X`` if it does not exist."""
    with suppress(OSError):
        # After the command's name in parentheses: state, parent, process group, session (proc(5)).
        state, parent, _, session = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:4]
        return state, int(parent), int(session)
    return "X", 0, 0
