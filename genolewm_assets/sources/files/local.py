"""Check that a path names a readable regular file."""

from __future__ import annotations

import os
import re
import stat
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

from genolewm_assets.errors import InputError

#: Matches scheme and ``://`` at the start of a URL; group 1 is the scheme.
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def check_local_file(path: Path, *, expected: str = "a file", error: type[InputError] = InputError) -> int:
    """Check that a path, or what it links to, names a readable regular file, and return its size in bytes.

    Parameters
    ----------
    expected
        Kind of file that the caller needs, such as ``a VCF file``; part of the message.

    Raises
    ------
    InputError
        As the class given by ``error``: if the path does not exist, cannot be read, or is a directory, pipe or device
        (reading a pipe or device may never end).
    """
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise error(str(path), "is a directory", expected=expected, remedy="Give the path of the file inside it")
        if not stat.S_ISREG(status.st_mode):
            remedy = "Save its content to a regular file and give the path of that file"
            raise error(str(path), "is not a regular file", expected=expected, remedy=remedy)
        with path.open("rb"):
            return status.st_size
    except (FileNotFoundError, NotADirectoryError) as err:
        raise error(str(path), "does not exist", expected=expected, remedy="Correct the path") from err
    except OSError as err:
        raise error(str(path), f"cannot be read ({err.strerror})", remedy="Check the path and its permissions") from err


#: The empty block that ends every complete BGZF file (SAM specification, section 4.1.2).
BGZF_END = bytes.fromhex("1f8b08040000000000ff0600424302001b0003000000000000000000")
_HEADER_BYTES = 18
_HAS_EXTRA_FIELD = 4


class Compression(StrEnum):
    """Compression of a text file: BGZF, any other gzip, or none."""

    BGZF = "bgzf"
    GZIP = "gzip"
    PLAIN = "plain"


def detect_compression(file: BinaryIO) -> Compression:
    """Return the compression of an open binary file, read from its first 18 bytes; the position is then 0."""
    file.seek(0)
    head = file.read(_HEADER_BYTES)
    file.seek(0)
    if not head.startswith(b"\x1f\x8b"):
        return Compression.PLAIN
    # BGZF is gzip whose first extra subfield is BC (SAM specification, section 4.1).
    blocked = len(head) == _HEADER_BYTES and head[3] & _HAS_EXTRA_FIELD and head[12:14] == b"BC"
    return Compression.BGZF if blocked else Compression.GZIP


def has_bgzf_end(file: BinaryIO) -> bool:
    """Return whether an open BGZF file ends with the empty end-of-file block; the position is then 0."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - len(BGZF_END)))
    complete = file.read() == BGZF_END
    file.seek(0)
    return complete
