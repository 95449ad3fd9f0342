"""Check that a path names a readable regular file."""

from __future__ import annotations

import stat
from pathlib import Path

from genolewm_assets.errors import InputError


def check_local_file(path: Path, *, expected: str = "a file", error: type[InputError] = InputError) -> int:
    """Check that a path names a readable regular file, and return its size in bytes.

    Parameters
    ----------
    path
        Path to check; symlinks are followed.
    expected
        Kind of file that the caller needs, such as ``a VCF file``; part of the message.
    error
        Exception class to raise.

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
