"""Read files that may have been damaged or replaced: regular files only, and strict JSON of bounded size and depth."""

from __future__ import annotations

import errno
import json
import math
import os
import stat
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, TypeGuard

from genolewm_assets.errors import CorruptResourceError, MissingResourceError, ResourceError

_REMEDY = "Build the array store again"
_NOT_PLAIN = "is not a regular file"
_BLOCK_BYTES = 1 << 20
#: Largest record that is read whole, in bytes; the manifest of a package with 100,000 files has 20 MB.
MAX_RECORD_BYTES = 256 << 20
#: Deepest nesting of lists and objects in a JSON document; no document of this package has more than ten levels.
MAX_DEPTH = 100


def check_plain_folder(path: Path) -> None:
    """Raise :class:`ResourceError` if a link or file is in the place of a folder; the folder may be missing."""
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise ResourceError(
            str(path), "is a link or file in the place of a folder", remedy="Remove it and run this again"
        )


def open_regular(path: Path, *, links: bool = False) -> BufferedReader:
    """Open a regular file for reading; a FIFO, socket or device is an error at once and never waited for.

    Parameters
    ----------
    links
        Whether ``path`` may be a symlink to a regular file.

    Raises
    ------
    OSError
        If the file cannot be opened: ``ELOOP`` for a symlink without ``links``, ``EINVAL`` for anything else that is
        not a regular file.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if links else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except OSError as err:
        if err.errno == errno.ENXIO:  # a socket, or a device that is not there
            raise OSError(errno.EINVAL, _NOT_PLAIN, str(path)) from err
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, _NOT_PLAIN, str(path))
    return os.fdopen(descriptor, "rb")


def open_plain(path: Path, *, links: bool = False, remedy: str = _REMEDY) -> BinaryIO:
    """Open a regular file for reading; a FIFO or device does not block.

    Parameters
    ----------
    links
        Whether ``path`` may be a symlink to a regular file.

    Raises
    ------
    MissingResourceError
        If the file does not exist.
    CorruptResourceError
        If the path is a symlink (without ``links``) or anything else but a regular file.
    ResourceError
        If the file cannot be opened for another reason, such as permissions or a disk error; it may exist.
    """
    try:
        return open_regular(path, links=links)
    except OSError as err:
        if err.errno == errno.ELOOP:
            raise CorruptResourceError(str(path), "is a symlink, not a regular file", remedy=remedy) from err
        if err.errno == errno.EINVAL:
            raise CorruptResourceError(str(path), _NOT_PLAIN, remedy=remedy) from err
        raise _unreadable(path, err, remedy) from err


def _unreadable(path: Path, err: OSError, remedy: str) -> ResourceError:
    problem = f"cannot be read ({err.strerror})"
    if isinstance(err, FileNotFoundError | NotADirectoryError):
        return MissingResourceError(str(path), problem, remedy=remedy)
    return ResourceError(str(path), problem, remedy="Make it readable and run this again")


def read_blocks(path: Path, *, links: bool = False, remedy: str = _REMEDY) -> Iterator[bytes]:
    """Yield the bytes of a regular file in parts of at most 1 MiB; raises as :func:`open_plain`, also while reading."""
    with open_plain(path, links=links, remedy=remedy) as handle:
        try:
            while block := handle.read(_BLOCK_BYTES):
                yield block
        except OSError as err:
            raise _unreadable(path, err, remedy) from err


def read_plain(path: Path) -> bytes:
    """Return the bytes of a regular file; raises as :func:`open_plain`."""
    return b"".join(read_blocks(path))


def read_record(path: Path, *, remedy: str, links: bool = False) -> bytes:
    """Return the bytes of a small regular file; raises as :func:`open_plain`, also above :data:`MAX_RECORD_BYTES`."""
    blocks, size_bytes = [], 0
    for block in read_blocks(path, links=links, remedy=remedy):
        size_bytes += len(block)
        if size_bytes > MAX_RECORD_BYTES:
            raise CorruptResourceError(
                str(path), "is too large for a record", expected=f"at most {MAX_RECORD_BYTES:,} bytes", remedy=remedy
            )
        blocks.append(block)
    return b"".join(blocks)


def read_document(path: Path, *, remedy: str, links: bool = False) -> Any:
    """Read and parse a JSON file; its content is not checked. Raises as :func:`read_record` and :func:`parse_json`."""
    return parse_json(read_record(path, remedy=remedy, links=links), str(path), remedy=remedy)


def parse_json(data: bytes, where: str, *, remedy: str = _REMEDY) -> Any:
    """Parse a JSON document strictly (RFC 8259, I-JSON); its content is not checked.

    Raises
    ------
    CorruptResourceError
        If ``data`` is not JSON in UTF-8, names a key of an object twice, has a number that is not finite or has more
        than 4,300 digits, has half of a surrogate pair, or is nested deeper than :data:`MAX_DEPTH` levels.
    """
    try:
        document = json.loads(
            data.decode("utf-8"), object_pairs_hook=_distinct, parse_float=_finite, parse_constant=_finite
        )
        _check_depth(document)
        if b"\\u" in data:
            json.dumps(document, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as err:
        raise CorruptResourceError(where, f"is not JSON ({err})", remedy=remedy) from err
    return document


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is stated twice")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]!r} is not a finite number")
    return number


def _check_depth(document: object) -> None:
    level: list[Any] = [document]
    for _ in range(MAX_DEPTH):
        children = [value.values() if isinstance(value, dict) else value for value in level if _is_nested(value)]
        level = [inner for values in children for inner in values if _is_nested(inner)]
        if not level:
            return
    raise ValueError(f"nested deeper than {MAX_DEPTH} levels")


def _is_nested(value: object) -> TypeGuard[list[Any] | dict[str, Any]]:
    return isinstance(value, dict | list)
