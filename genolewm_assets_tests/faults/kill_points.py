"""What a kill leaves at every call that changes the disk, from the states of one run; every 16th is a real kill."""

from __future__ import annotations

import io
import itertools
import os
import random
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from genolewm_assets_tests.faults import file_layer, killing
from genolewm_assets_tests.faults.file_layer import Call
from genolewm_assets_tests.faults.killing import Further, result_of, start

#: A tree by relative path: bytes and time of change of a file, text of a link, None for a folder.
State = dict[str, tuple[bytes, int] | str | None]
#: Gives the action to kill; called anew for each real kill.
Prepare = Callable[[], Callable[[], object]]

#: One in so many points is a real kill.
REAL_KILLS = 16
#: Of more points than these together: so many at the beginning, evenly spread, and at the end, where all is published.
FIRST, SPREAD, LAST = 8, 28, 28

_MOST_CALLS = 1_000
_seek, _truncate = os.lseek, os.ftruncate


class KillPoints:
    """Yields the number of each kill point, with the folder as a kill there leaves it; exhaustive: all real kills."""

    def __init__(self, *, exhaustive: bool) -> None:
        self._exhaustive = exhaustive
        self.last = -1

    def __call__(
        self, prepare: Prepare, folder: Callable[[], Path], *, further: Further = (), writes: bool = False
    ) -> Iterator[int]:
        """Kill an action that changes ``folder()`` at its calls; ``further`` and (torn) ``writes`` count."""

        def install(patch: pytest.MonkeyPatch, at_call: Callable[[Call | None], bool]) -> None:
            if writes:
                file_layer.install(patch, at_call)
            else:
                killing.install(patch, lambda: at_call(None), further)

        if self._exhaustive:
            for self.last in itertools.takewhile(lambda n: killed_at(n, prepare(), install), _numbers()):
                yield self.last
            return
        action = prepare()
        for index, (self.last, state) in enumerate(_sample(_states(folder(), action, install))):
            if index % REAL_KILLS == REAL_KILLS // 2:
                assert killed_at(self.last, prepare(), install)
            else:
                _lay(state, folder())
            yield self.last


Install = Callable[[pytest.MonkeyPatch, Callable[[Call | None], bool]], None]


def _numbers() -> Iterator[int]:
    yield from range(_MOST_CALLS)
    raise AssertionError(f"more than {_MOST_CALLS} calls")


def _sample(states: list[tuple[int, State]]) -> list[tuple[int, State]]:
    step = max(1, (len(states) - FIRST - LAST) // SPREAD)
    return [*states[:FIRST], *states[FIRST:-LAST:step], *states[max(FIRST, len(states) - LAST) :]]


def _torn_bytes(number: int, call: Call) -> int:
    """Return how much of a write is done before the kill: none, all, or something in between."""
    draw = random.Random(number)
    return draw.choice([0, draw.randint(0, call.size_bytes), call.size_bytes])


def killed_at(number: int, action: Callable[[], object], install: Install) -> bool:
    """Die by SIGKILL in a child at call ``number`` (from 0) of ``action``. False if it ended before that."""
    calls = itertools.count()

    def at_call(call: Call | None) -> bool:
        if next(calls) == number:
            if call is not None and call.write_part is not None:
                call.write_part(_torn_bytes(number, call))
            os.kill(os.getpid(), signal.SIGKILL)
        return False

    def run() -> None:
        install(pytest.MonkeyPatch(), at_call)
        action()

    _, status = os.waitpid(start(run), 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0, "the action failed in the child"
    return False


def _states(folder: Path, action: Callable[[], object], install: Install) -> list[tuple[int, State]]:
    """Run an action in a child; return the states that kills leave, with the number of the first call of each."""

    def run() -> list[tuple[int, State]]:
        found: list[tuple[int, State]] = []
        numbers = itertools.count()

        def at_call(call: Call | None) -> bool:
            number = next(numbers)
            state = _torn(number, call, folder) if call and call.write_part else _look(folder)
            if not found or _contents(state) != _contents(found[-1][1]):
                found.append((number, state))
            return False

        with pytest.MonkeyPatch.context() as patch:
            install(patch, at_call)
            action()
        return found

    states = result_of(run)
    assert len(states) < _MOST_CALLS
    return states


def _torn(number: int, call: Call, folder: Path) -> State:
    """Return what a kill within a write leaves; the whole write follows."""
    assert call.write_part is not None
    at, size = _seek(call.target, 0, os.SEEK_CUR), os.fstat(call.target).st_size
    call.write_part(_torn_bytes(number, call))
    state = _look(folder)
    _truncate(call.target, size)
    _seek(call.target, at, os.SEEK_SET)
    return state


def _look(folder: Path) -> State:
    state: State = {}
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        # What another thread of the action has removed since it was listed is gone.
        with suppress(FileNotFoundError):
            state[str(path.relative_to(folder))] = _entry(path)
    return state


def _entry(path: Path) -> tuple[bytes, int] | str | None:
    if path.is_symlink():
        return str(path.readlink())
    if path.is_dir():
        return None
    with io.FileIO(path) as file:
        return file.readall(), path.stat().st_mtime_ns


def _contents(state: State) -> dict[str, bytes | str | None]:
    return {name: value[0] if isinstance(value, tuple) else value for name, value in state.items()}


def _lay(state: State, folder: Path) -> None:
    """Make the folder hold a state and nothing else."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in state.items():
        path = folder / name
        if isinstance(value, tuple):
            path.write_bytes(value[0])
            os.utime(path, ns=(value[1], value[1]))
        elif isinstance(value, str):
            path.symlink_to(value)
        else:
            path.mkdir()
