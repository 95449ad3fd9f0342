"""How kernels are compiled. Import this module inside functions only: importing numba is slow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import numba

_FunctionT = TypeVar("_FunctionT", bound=Callable[..., Any])

#: No kernel makes an array, so none counts references (``_nrt``): atomic counters would take more than half of the
#: time. No divisor is 0 (``error_model``).
_OPTIONS: Final[dict[str, Any]] = {"nogil": True, "error_model": "numpy", "_nrt": False}


def kernel(function: _FunctionT) -> _FunctionT:
    """Compile a function that other kernels call, on its first use in a process."""
    return cast("_FunctionT", numba.njit(**_OPTIONS)(function))


def entry(function: _FunctionT) -> _FunctionT:
    """Compile a function that Python calls, and keep it on disk; see ``entry_kernels``."""
    return cast("_FunctionT", numba.njit(cache=True, **_OPTIONS)(function))
