"""Read files from an unverified directory: regular files only; invalid or too deeply nested JSON is an error."""

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
    """Open a regular file for reading; a symlink is an error, and a FIFO or device does not block.

    Raises
    ------
    MissingResourceError
        If the file does not exist.
    CorruptResourceError
        If the path is a symlink or anything else but a regular file.
    ResourceError
        If the file cannot be opened for another reason, such as permissions or a disk error; it may exist.
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
    return ResourceError(str(path), problem, remedy="Make it readable and run this again")


def read_blocks(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a regular file in parts of at most 1 MiB; raises as :func:`open_plain`, also while reading."""
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
    """Parse a JSON document; its content is not checked.

    Parameters
    ----------
    where
        File that an error message names.

    Raises
    ------
    CorruptResourceError
        If ``data`` is not JSON, or is nested deeper than the recursion limit of Python allows.
    """
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as err:
        raise CorruptResourceError(where, f"is not JSON ({err})", remedy=_REMEDY) from err
