"""Compiled loops, kept on disk. Import this module inside functions only: importing numba is slow.

What numba keeps it unpickles, and so executes. Beside a module, whoever can write the cache can write the module;
elsewhere the folder and its files must be the user's own, or root's if ``genolewm compile`` filled it and this process
cannot write it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, UserProvidedCacheLocator

from genolewm_assets.own_caches.folders import is_own, own_cache

_FunctionT = TypeVar("_FunctionT", bound=Callable[..., Any])
#: Settings of numba, which sets them as attributes at its import.
_config: Any = numba.config


def compiled(**options: Any) -> Callable[[_FunctionT], _FunctionT]:
    """Compile a function with numba, and keep it on disk where nobody else can write."""

    def decorate(function: _FunctionT) -> _FunctionT:
        if (ready := _ready(function)) is not None:
            kept = numba.njit(**options)(function)
            kept._cache = ready
            return cast("_FunctionT", kept)
        try:
            kept = numba.njit(cache=True, **options)(function)
            if not _is_trusted(Path(kept.stats.cache_path), Path(function.__code__.co_filename)):
                kept = _kept_apart(function, options)
        except RuntimeError:  # numba can write neither beside the module nor in the user's cache folder.
            kept = _kept_apart(function, options)
        return cast("_FunctionT", kept)

    return decorate


class _Filled(UserProvidedCacheLocator):
    """Place of a kernel in ``NUMBA_CACHE_DIR``, which need not be writable."""

    def ensure_cache_path(self) -> None: ...


class _FilledImpl(CompileResultCacheImpl):
    _locator_classes = [_Filled]  # noqa: RUF012


class _FilledCache(FunctionCache):
    """Kernels that are read and never written; what is missing is compiled, and kept in memory."""

    _impl_class = _FilledImpl

    def save_overload(self, sig: Any, data: Any) -> None: ...


def _ready(function: Callable[..., Any]) -> Any | None:
    """Return the cache of a function in a ``NUMBA_CACHE_DIR`` that is there and cannot be written; else None."""
    folder = _config.CACHE_DIR
    if not folder or not Path(folder).is_dir() or os.access(folder, os.W_OK):
        return None
    cache: Any = _FilledCache(function)  # type: ignore[no-untyped-call]
    place = Path(cache.cache_path)
    files = [Path(folder), place, *(place.iterdir() if place.is_dir() else ())]
    return cache if all(is_own(path) or _is_roots(path) for path in files) else None


def _is_roots(path: Path) -> bool:
    found = path.lstat()
    return not found.st_uid and not stat.S_ISLNK(found.st_mode) and not found.st_mode & 0o022


def _kept_apart(function: Callable[..., Any], options: Mapping[str, Any]) -> Any:
    """Compile a function that is kept in a folder of the user's own, or in no folder if there is none."""
    before = _config.CACHE_DIR
    try:
        _config.CACHE_DIR = str(own_cache("kernels"))
        return numba.njit(cache=True, **options)(function)
    except (OSError, RuntimeError):
        return numba.njit(**options)(function)
    finally:
        _config.CACHE_DIR = before


def _is_trusted(cache: Path, module: Path) -> bool:
    """Return whether nobody can write the cache of a module who cannot write the module."""
    if cache.parent == module.parent:
        mine, beside = cache.stat(), module.parent.stat()
        if mine.st_uid == beside.st_uid and not mine.st_mode & ~beside.st_mode & 0o022:
            return True
    # Another process may rename a file meanwhile.
    return is_own(cache) and all(is_own(path) or not path.exists() for path in cache.iterdir())
