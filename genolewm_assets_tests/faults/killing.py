"""Actions in child processes, and the calls into the file system at which one may be killed."""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest

_Result = TypeVar("_Result")

#: Every call of `os` by which the store changes what is on disk. `shutil` and `pathlib` go through them too.
_CALLS = ("fsync", "rename", "replace", "link", "symlink", "mkdir", "unlink", "rmdir", "open")


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
        except BaseException:  # noqa: BLE001 - a child ends with what its action raises
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return child


def result_of(action: Callable[[], _Result]) -> _Result:
    """Run ``action`` in a child of its own, in which it must succeed, and return its result."""
    with tempfile.TemporaryFile() as file:

        def run() -> None:
            pickle.dump(action(), file)
            file.flush()

        _, status = os.waitpid(start(run), 0)
        assert status == 0, "the action failed in the child"
        file.seek(0)
        found: _Result = pickle.load(file)
    return found


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
