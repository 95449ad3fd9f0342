"""Actions in child processes, one that kills itself with SIGKILL at its n-th call into the file system among them."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence

import pytest

#: Every call of `os` by which the store changes what is on disk. `shutil` and `pathlib` go through them too.
_CALLS = ("fsync", "rename", "replace", "symlink", "mkdir", "unlink", "rmdir", "open")


#: Further functions that a kill may come before: what has them, and their names.
Further = Sequence[tuple[object, Sequence[str]]]


def install(patch: pytest.MonkeyPatch, at_call: Callable[[], None], further: Further = ()) -> None:
    """Make every such call report to ``at_call`` before it happens. Syncing itself is left out: a kill needs none."""
    for owner, names in further:
        for name in names:
            _report(patch, owner, name, at_call)
    for name in _CALLS:
        real = getattr(os, name)

        def call(*args: object, _real: Callable[..., object] = real, _name: str = name, **kwargs: object) -> object:
            at_call()
            return None if _name == "fsync" else _real(*args, **kwargs)

        patch.setattr(os, name, call)


def _report(patch: pytest.MonkeyPatch, owner: object, name: str, at_call: Callable[[], None]) -> None:
    real = getattr(owner, name)

    def call(*args: object, **kwargs: object) -> object:
        at_call()
        return real(*args, **kwargs)

    patch.setattr(owner, name, call)


def killed_at(number: int, action: Callable[[], object], further: Further = ()) -> bool:
    """Fork; in the child, die at call ``number`` (from 0) of ``action``. False if it ended before that."""
    child = _fork()
    if child == 0:
        _die_within(number, action, further)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0, "the action failed in the child"
    return False


def _fork() -> int:
    with warnings.catch_warnings():
        # The child runs the store alone and leaves by os._exit, so threads of the test runner do no harm.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def start(action: Callable[[], object]) -> int:
    """Run ``action`` in a child and return its process id; the child ends with 0, or 1 after an error."""
    child = _fork()
    if child == 0:
        code = 1
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    return child


def outcome(action: Callable[[], object]) -> str:
    """Run ``action`` in a child of its own and return the text of its result, or of its error."""
    reader, writer = os.pipe()

    def report() -> None:
        try:
            text = str(action())
        except Exception as err:  # noqa: BLE001 - the parent decides what it expected
            text = f"{type(err).__name__}: {err}"
        os.write(writer, text.encode())

    child = start(report)
    os.close(writer)
    with os.fdopen(reader, "rb") as handle:
        text = handle.read().decode()
    os.waitpid(child, 0)
    return text


def _die_within(number: int, action: Callable[[], object], further: Further) -> None:
    calls = 0

    def at_call() -> None:
        nonlocal calls
        if calls == number:
            os.kill(os.getpid(), signal.SIGKILL)
        calls += 1

    code = 1
    try:
        install(pytest.MonkeyPatch(), at_call, further)
        action()
        code = 0
    finally:
        os._exit(code)


def kill_points(
    prepare: Callable[[], Callable[[], object]], *, limit: int = 400, further: Further = ()
) -> Iterator[int]:
    """For n = 0, 1, ...: prepare afresh, kill the prepared action at call n, yield n; end when one survives."""
    for number in range(limit):
        if not killed_at(number, prepare(), further):
            return
        yield number
    raise AssertionError(f"more than {limit} calls")
