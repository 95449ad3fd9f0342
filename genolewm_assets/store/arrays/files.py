"""The open files of an array store that is being written, in a directory that nobody else writes."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from genolewm_assets.errors import BusyError, ResourceError
from genolewm_assets.store.locks import lock_folder


class WrittenFiles:
    """Files that grow at their end. The lock is the operating system's: it goes with the process.

    Parameters
    ----------
    directory
        Exists; its path must go on leading to it as long as files are committed.

    Raises
    ------
    BusyError
        If another writer has the directory open.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._handles: dict[str, BinaryIO] = {}
        self._lock: int | None = None
        try:
            self._lock = lock_folder(directory, wait=False)
        except BusyError as err:
            raise BusyError(
                str(directory), "another writer has this array store open", remedy="Wait for it to finish, or stop it"
            ) from err

    @property
    def are_open(self) -> bool:
        """Whether anything can be written."""
        return bool(self._handles)

    def open_at(self, name: str, length: int) -> None:
        """Open a file, made if missing, and cut it to a length in bytes.

        Raises
        ------
        ResourceError
            If it is no regular file: a link would have another file cut.
        """
        path = self._directory / name
        handle = os.fdopen(open_to_write(path), "r+b")
        self._handles[name] = handle
        handle.truncate(length)
        handle.seek(length)
        os.fsync(handle.fileno())

    def write(self, name: str, data: bytes | npt.NDArray[Any]) -> None:
        """Append to a file; nothing is known to be on disk before :meth:`sync`."""
        self._handles[name].write(data.data if isinstance(data, np.ndarray) else data)

    def sync(self, name: str) -> None:
        """Have all of a file on disk."""
        self._handles[name].flush()
        os.fsync(self._handles[name].fileno())

    def take_back(self, name: str, length: int) -> None:
        """Cut a file whose end could not be synced: the cache of the disk may still show it (fsync(2), EIO)."""
        with suppress(OSError):
            os.ftruncate(self._handles[name].fileno(), length)

    def check_in_place(self) -> None:
        """Raise :class:`ResourceError` if the directory's path no longer leads to the directory."""
        assert self._lock is not None
        with suppress(FileNotFoundError):
            if os.path.samestat(self._directory.stat(), os.fstat(self._lock)):
                return
        raise ResourceError(
            str(self._directory),
            "the directory was removed or replaced while it was written",
            remedy="Leave it alone, and run it again",
        )

    def close(self) -> None:
        """Give up the files and the lock; closing again does nothing."""
        for handle in self._handles.values():
            # What could not be flushed was not committed either.
            with suppress(OSError):
                handle.close()
        self._handles = {}
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def open_to_write(path: Path) -> int:
    """Open a regular file for reading and writing, made if missing; never through a link, never waiting for a pipe.

    Raises
    ------
    ResourceError
        If something else stands there.
    """
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(path.lstat().st_mode):
            raise ResourceError(
                str(path), "is not a regular file", expected="what a writer left", remedy="Remove it and run this again"
            )
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
