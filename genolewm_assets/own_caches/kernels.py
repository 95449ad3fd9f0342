"""All kernels that are kept on disk, and the argument types that the package's own code calls each with.

``signatures.json`` has them by ``<module>:<function>``. Import this module inside functions only.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any, TypeAlias

import numba.core.types
from numba.core.dispatcher import Dispatcher

from genolewm_assets.progress import Progress

#: Type of an argument: the name of a number type, or a list that begins with the kind.
Stated: TypeAlias = Any

#: Types of numba, which are not annotated.
types: Any = numba.core.types
_PACKAGE = "genolewm_assets"
_FILE = "signatures.json"


def find_kernels() -> Iterator[tuple[str, Any]]:
    """Yield ``<module>:<function>`` and the dispatcher of every kernel that is kept on disk; all are imported."""
    package = importlib.import_module(_PACKAGE)
    for found in pkgutil.walk_packages(package.__path__, f"{_PACKAGE}."):
        if found.name.endswith("kernels") and found.name != __name__:
            module = importlib.import_module(found.name)
            # Kernels that are made when they are first asked for.
            made = module.entries() if hasattr(module, "entries") else ()
            for each in (*vars(module).values(), *made):
                ours = isinstance(each, Dispatcher) and each.__module__ == module.__name__
                # Only what is kept on disk, or would be if there were a folder.
                if ours and each.stats.cache_path is not None:
                    yield f"{found.name}:{each.py_func.__name__}", each


def compile_kernels(progress: Progress) -> tuple[int, int, set[Path]]:
    """Compile, or load, every kernel for each listed call; return the numbers of kernels and calls, and the folders."""
    signatures, places, done = read_signatures(), set[Path](), 0
    total = sum(map(len, signatures.values()))
    kernels = list(find_kernels())
    for name, kernel in kernels:
        places.add(Path(kernel.stats.cache_path))
        for call in signatures.get(name, []):
            kernel.compile(call)
            progress.advance(done := done + 1, total, "calls of kernels compiled")
    return len(kernels), done, places


def read_signatures() -> dict[str, list[tuple[Any, ...]]]:
    """Return the argument types, as numba has them, of each call that is listed, by kernel."""
    text = resources.files(__package__ or "").joinpath(_FILE).read_text()
    return {name: [tuple(map(parse_type, call)) for call in calls] for name, calls in json.loads(text).items()}


def state_type(given: Any) -> Stated:
    """Return a type of numba as a JSON value."""
    if isinstance(given, types.Array):
        return ["array", state_type(given.dtype), given.ndim, given.layout, "readonly" if not given.mutable else ""]
    if isinstance(given, types.BaseNamedTuple):
        owner = given.instance_class
        return ["named", f"{owner.__module__}:{owner.__qualname__}", *map(state_type, given.types)]
    if isinstance(given, types.BaseTuple):
        return ["tuple", *map(state_type, given.types)]
    if isinstance(given, types.Omitted):
        return ["omitted", given.value]
    return str(given)


def parse_type(stated: Stated) -> Any:
    """Return the type of numba that :func:`state_type` stated."""
    match stated:
        case ["array", dtype, ndim, layout, access]:
            return types.Array(parse_type(dtype), ndim, layout, readonly=bool(access))
        case ["named", owner, *members]:
            module, name = owner.split(":")
            return types.BaseTuple.from_types(
                tuple(map(parse_type, members)), getattr(importlib.import_module(module), name)
            )
        case ["tuple", *members]:
            return types.BaseTuple.from_types(tuple(map(parse_type, members)))
        case ["omitted", value]:
            return types.Omitted(value)
    return getattr(types, "boolean" if stated == "bool" else stated)
