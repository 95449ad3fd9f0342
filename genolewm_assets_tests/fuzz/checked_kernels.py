"""Compiled loops run twice: first interpreted, every index checked, then compiled; both must do the same.

Compiled, a loop that reads past an array's end crashes only if it is out of luck. Interpreted, it raises, and a fuzzer
that is guided by coverage sees which branches it takes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from numba.core.registry import CPUDispatcher
from numba.core.types import ExternalFunction

_C = ctypes.CDLL(None)
_C.memchr.restype = ctypes.c_void_p
_C.memchr.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
_C.memcpy.restype = ctypes.c_void_p
_C.memcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]


class CheckedArray:
    """An array that knows no negative indices and gives Python numbers, as a compiled loop widens them."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.ctypes = array.ctypes

    def __len__(self) -> int:
        return len(self.array)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def __getitem__(self, at: Any) -> Any:
        if type(at) is int and at >= 0:
            return self.array.item(at)
        found = self.array[self._checked(at)]
        return found.item() if isinstance(found, np.generic) else found

    def __setitem__(self, at: Any, value: Any) -> None:
        self.array[at if type(at) is int and at >= 0 else self._checked(at)] = value

    def _checked(self, at: Any) -> Any:
        for index, size in zip(at if isinstance(at, tuple) else (at,), self.array.shape, strict=False):
            begin, end = (index.start, index.stop) if isinstance(index, slice) else (index, index + 1)
            assert 0 <= begin <= end <= size, f"index {index} of {size}"
        return at


class CheckedMemory:
    """The functions of the C library that compiled loops call, confined to the arrays of the call under way."""

    def __init__(self) -> None:
        self._spans: list[tuple[int, int, bool]] = []

    def open(self, arguments: Iterable[object]) -> None:
        """Take note of the arrays that the next call may touch."""
        arrays = [each for each in arguments if isinstance(each, np.ndarray)]
        begins = [each.ctypes.data for each in arrays]
        self._spans = [(at, at + each.nbytes, each.flags.writeable) for at, each in zip(begins, arrays, strict=True)]

    def memchr(self, address: int, byte: int, size: int) -> int:
        self._check(address, size, writes=False)
        return _C.memchr(address, byte, size) or 0

    def memcpy(self, target: int, source: int, size: int) -> int:
        self._check(target, size, writes=True)
        self._check(source, size, writes=False)
        return _C.memcpy(int(target), int(source), int(size)) or 0

    def _check(self, address: int, size: int, *, writes: bool) -> None:
        assert size >= 0, f"{size} bytes"
        inside = [writes <= may for begin, end, may in self._spans if begin <= address and address + size <= end]
        assert any(inside), "outside of the arrays"


def install(module: ModuleType, instrument: Callable[[Any], Any] = lambda function: function) -> list[str]:
    """Replace the compiled functions of a module by ones that run both ways; return their names."""
    memory = CheckedMemory()
    names: dict[str, object] = dict(vars(module))
    for name, each in vars(module).items():
        if isinstance(each, ExternalFunction):
            names[name] = getattr(memory, each.symbol)
    compiled = {name: each for name, each in vars(module).items() if isinstance(each, CPUDispatcher)}
    for name, each in compiled.items():
        plain = each.py_func
        names[name] = instrument(FunctionType(plain.__code__, names, name, plain.__defaults__, plain.__closure__))
    for name, each in compiled.items():
        setattr(module, name, _both(names[name], each, name, memory))  # type: ignore[arg-type]
    return list(compiled)


def _both(
    interpreted: Callable[..., Any], compiled: Callable[..., Any], name: str, memory: CheckedMemory
) -> Callable[..., Any]:
    def run(*arguments: Any) -> Any:
        # What is read-only is not copied: to write to it would raise.
        copies = [each.copy() if _is_output(each) else each for each in arguments]
        memory.open(copies)
        said = interpreted(*(CheckedArray(each) if isinstance(each, np.ndarray) else each for each in copies))
        answer = compiled(*arguments)
        assert answer == said, f"{name}: {answer} compiled, {said} interpreted"
        for at, (one, other) in enumerate(zip(arguments, copies, strict=True)):
            same = not _is_output(one) or one.tobytes() == other.tobytes()
            assert same, f"{name}, argument {at}: {one} compiled, {other} interpreted"
        return answer

    return run


def _is_output(value: object) -> bool:
    return isinstance(value, np.ndarray) and value.flags.writeable
