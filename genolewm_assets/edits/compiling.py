"""How kernels are compiled. Import this module inside functions only: importing numba is slow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from genolewm_assets.own_caches import compiled

_FunctionT = TypeVar("_FunctionT", bound=Callable[..., Any])

#: No kernel makes an array, so none counts references (``_nrt``): atomic counters would take more than half of the
#: time. No divisor is 0 (``error_model``).
_OPTIONS: Final[dict[str, Any]] = {"nogil": True, "error_model": "numpy", "_nrt": False}


def kernel(function: _FunctionT) -> _FunctionT:
    """Compile a function that other kernels call, on its first use in a process."""
    return cast("_FunctionT", numba.njit(**_OPTIONS)(function))


def entry(function: _FunctionT) -> _FunctionT:
    """Compile a function that Python calls, and keep it on disk; see ``entry_kernels``."""
    return compiled(**_OPTIONS)(function)


def _prefetch(_: Any, array: types.Array, at: types.Integer) -> Any:
    """Begin to load an item of an array into the processor's caches; nothing else happens."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        items = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.bitcast(builder.gep(items.data, [arguments[1]]), ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        function = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            builder.module, ir.FunctionType(ir.VoidType(), [place.type, number, number, number]), "llvm.prefetch.p0i8"
        )
        builder.call(function, [place, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, at), generate


#: :func:`_prefetch` as kernels call it, with the array and the place.
prefetch: Callable[[Any, Any], None] = cast("Callable[[Any, Any], None]", intrinsic(_prefetch))
