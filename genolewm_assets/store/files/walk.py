"""Folders looked at as a whole: what cannot be read is an error, never passed over as if it were empty."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from genolewm_assets.errors import GenoLeWMError, ResourceError


def walk(base: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Yield every folder from ``base`` downwards with the names of its folders and of everything else in it.

    As :func:`os.walk`: links are named but not followed, and names taken out of the first list are not entered.
    Nothing is yielded where there is no ``base``.

    Raises
    ------
    OSError
        If a folder cannot be read.
    """
    for folder, folders, names in os.walk(base, onerror=_refuse):
        yield Path(folder), folders, names


def _refuse(err: OSError) -> None:
    # What has gone since its parent was listed was taken by another process, and is no longer part of the tree.
    if not isinstance(err, FileNotFoundError):
        raise err


@contextmanager
def reading(base: Path) -> Iterator[None]:
    """Turn what the file system refuses to show below ``base`` into a :class:`ResourceError` that names it."""
    try:
        yield
    except GenoLeWMError:
        raise
    except OSError as err:
        raise ResourceError(
            str(err.filename or base),
            f"cannot be read ({err.strerror})",
            remedy="Make it readable and run this again",
        ) from err
