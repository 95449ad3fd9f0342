"""Files of a directory whose content nobody vouches for yet: read only if they are plain ones, parsed within bounds."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from genolewm_assets.errors import CorruptResourceError, MissingResourceError, ResourceError

_REMEDY = "Build the array store again"
_BLOCK_BYTES = 1 << 20


def open_plain(path: Path) -> BinaryIO:
    """Open a regular file for reading; neither a link to elsewhere is followed, nor a FIFO or device waited for.

    Raises
    ------
    MissingResourceError
        If there is none.
    CorruptResourceError
        If something else stands there.
    ResourceError
        If it is refused for another reason, which tells nothing about whether it is there.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as err:
        if err.errno == errno.ELOOP:
            raise CorruptResourceError(str(path), "is a symlink, not a plain file", remedy=_REMEDY) from err
        raise _unreadable(path, err) from err
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise CorruptResourceError(str(path), "is not a plain file", remedy=_REMEDY)
    return os.fdopen(descriptor, "rb")


def _unreadable(path: Path, err: OSError) -> ResourceError:
    problem = f"cannot be read ({err.strerror})"
    if isinstance(err, FileNotFoundError | NotADirectoryError):
        return MissingResourceError(str(path), problem, remedy=_REMEDY)
    return ResourceError(str(path), problem, remedy="Put that right and run it again")


def read_blocks(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a regular file in parts of some size; raises as :func:`open_plain`, also while reading."""
    with open_plain(path) as handle:
        try:
            while block := handle.read(_BLOCK_BYTES):
                yield block
        except OSError as err:
            raise _unreadable(path, err) from err


def read_plain(path: Path) -> bytes:
    """Return the bytes of a regular file; raises as :func:`open_plain`."""
    return b"".join(read_blocks(path))


def parse_json(data: bytes, where: str) -> Any:
    """Parse JSON of any content.

    Raises
    ------
    CorruptResourceError
        If it is not JSON, or nested deeper than Python can follow.
    """
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as err:
        raise CorruptResourceError(where, f"is not JSON ({err})", remedy=_REMEDY) from err
