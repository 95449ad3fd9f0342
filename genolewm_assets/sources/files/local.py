"""Files handed over by path: what can be said about one before it is opened."""

from __future__ import annotations

import stat
from pathlib import Path

from genolewm_assets.errors import InputError


def check_local_file(path: Path, *, expected: str = "a file", error: type[InputError] = InputError) -> int:
    """Return the size of a file in bytes.

    Parameters
    ----------
    expected
        What the file should be, for the message.
    error
        What is raised.

    Raises
    ------
    InputError
        If it is missing, a directory, a pipe or a device (reading one may never end), or not readable.
    """
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise error(str(path), "is a directory", expected=expected, remedy="Give the path of the file inside it")
        if not stat.S_ISREG(status.st_mode):
            remedy = "Save its content to a file and give the path of that"
            raise error(str(path), "is not a regular file", expected=expected, remedy=remedy)
        with path.open("rb"):
            return status.st_size
    except (FileNotFoundError, NotADirectoryError) as err:
        raise error(str(path), "does not exist", expected=expected, remedy="Correct the path") from err
    except OSError as err:
        raise error(str(path), f"cannot be read ({err.strerror})", remedy="Check the path and its permissions") from err
