"""Walk a directory tree; an unreadable folder is an error and is never treated as empty."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from genolewm_assets.errors import GenoLeWMError, ResourceError


def walk(base: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Yield ``base`` and every folder below it, each with the names of its folders and of its other entries.

    As in :func:`os.walk`, symlinks are listed but not followed, and folders removed from the first list are not
    entered. If ``base`` does not exist, nothing is yielded.

    Raises
    ------
    OSError
        If a folder cannot be read.
    """
    for folder, folders, names in os.walk(base, onerror=_refuse):
        yield Path(folder), folders, names


def _refuse(err: OSError) -> None:
    # A folder that disappeared after its parent was listed was removed by another process.
    if not isinstance(err, FileNotFoundError):
        raise err


@contextmanager
def reading(base: Path) -> Iterator[None]:
    """Convert an OSError raised inside to a :class:`ResourceError` that names the unreadable path."""
    try:
        yield
    except GenoLeWMError:
        raise
    except OSError as err:
        raise ResourceError(
            str(err.filename or base), f"cannot be read ({err.strerror})", remedy="Make it readable and run this again"
        ) from err
