"""Folders and files of one user that nobody else can write.

::

    <cache folder>/<name>/...               as long as the cache folder is this user's alone
    <cache folder>/own.<user>/<name>/...    in a cache folder that others can write
    <temporary folder>/genolewm.<user>/...  where the cache folder cannot be written

The cache folder is ``GENOLEWM_CACHE``, by default ``genolewm`` in that of the user (``~/.cache``).
"""

from __future__ import annotations

import errno
import logging
import os
import stat
import tempfile
from contextlib import suppress
from functools import cache
from itertools import accumulate
from pathlib import Path

from platformdirs import user_cache_path

_LOG = logging.getLogger(__name__)


def cache_folder() -> Path:
    """Return the cache folder of this machine and user; it may not exist."""
    return Path(os.environ.get("GENOLEWM_CACHE") or user_cache_path("genolewm"))


def is_own(path: Path) -> bool:
    """Return whether a file or folder is this user's and nobody else can write it; a link or a missing file is not."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return found.st_uid == os.geteuid() and not stat.S_ISLNK(found.st_mode) and not found.st_mode & 0o022


def own_cache(*names: str) -> Path:
    """Return a folder in which nobody else can write, below the cache folder if possible; it is created if missing.

    A folder below the temporary one is said once in a process, because it may not last.

    Raises
    ------
    OSError
        If it cannot be created, or another user has taken its place.
    """
    base, user = cache_folder().resolve(), os.geteuid()
    for place in (base, base / f"own.{user}"):
        with suppress(OSError):
            return _made(place, names)
    found = _made(Path(tempfile.gettempdir()).resolve() / f"genolewm.{user}", names)
    _say_once(base, found)
    return found


def _made(place: Path, names: tuple[str, ...]) -> Path:
    """Create a folder, and those below it, that nobody else can write; OSError if another user has taken its place."""
    place.parent.mkdir(parents=True, exist_ok=True)
    for folder in (folders := [*accumulate(names, Path.__truediv__, initial=place)]):
        folder.mkdir(mode=0o700, exist_ok=True)
        if not is_own(folder):
            raise PermissionError(errno.EPERM, "others can write it", str(folder))
    return folders[-1]


@cache
def _say_once(base: Path, found: Path) -> None:
    _LOG.warning("%s cannot be written. Compiled loops and notes are kept in %s; set GENOLEWM_CACHE", base, found)
