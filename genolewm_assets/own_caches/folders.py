"""Folders and files of one user that nobody else can write.

::

    <cache folder>/<name>/...               as long as the cache folder is this user's alone
    <cache folder>/own.<user>/<name>/...    in a cache folder that others can write

The cache folder is ``GENOLEWM_CACHE``, by default ``genolewm`` in that of the user (``~/.cache``).
"""

from __future__ import annotations

import errno
import os
import stat
from itertools import accumulate
from pathlib import Path

from platformdirs import user_cache_path


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
    """Return a folder below the cache folder in which nobody else can write; it is created if missing.

    Raises
    ------
    OSError
        If it cannot be created, or another user has taken its place.
    """
    base = cache_folder().resolve()
    for place in (base, base / f"own.{os.geteuid()}"):
        folders = [*accumulate(names, Path.__truediv__, initial=place)]
        place.parent.mkdir(parents=True, exist_ok=True)
        for folder in folders:
            folder.mkdir(mode=0o700, exist_ok=True)
            if not is_own(folder):
                break
        else:
            return folders[-1]
    raise PermissionError(errno.EPERM, "others can write it", str(folder))
