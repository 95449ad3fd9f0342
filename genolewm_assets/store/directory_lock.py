"""One writer in one directory of one machine."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from genolewm_assets.errors import BusyError


def lock_directory(directory: Path) -> int:
    """Lock a directory against other writers; the operating system lets go when the process dies."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as err:
        os.close(descriptor)
        raise BusyError(
            str(directory), "another writer has this array store open", remedy="Wait for it to finish, or stop it"
        ) from err
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
