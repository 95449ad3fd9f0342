"""Open files of an array store that is being written, and the lock of its directory."""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from genolewm_assets.errors import BusyError, ResourceError
from genolewm_assets.store.locks import locked_folder


class WrittenFiles:
    """Append-only files of one directory, with a lock that is held until they are closed or collected."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._handles: dict[str, BinaryIO] = {}
        self._held = ExitStack()
        try:
            self._lock = self._held.enter_context(locked_folder(directory, wait=False))
        except BusyError as err:
            raise BusyError(
                str(directory), "another writer has this array store open", remedy="Wait for it to finish, or stop it"
            ) from err

    @property
    def are_open(self) -> bool:
        """Whether files are open for writing."""
        return bool(self._handles)

    def open_at(self, name: str, length: int) -> None:
        """Open a file, made if missing, and truncate it to a length in bytes."""
        path = self._directory / name
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(path.lstat().st_mode):
                wanted, remedy = "a file of a writer", "Remove it and run this again"
                raise ResourceError(str(path), "is not a regular file", expected=wanted, remedy=remedy)
        # Links are not followed, and pipes do not block.
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        handle = self._handles[name] = os.fdopen(os.open(path, flags, 0o666), "r+b")
        handle.truncate(length)
        handle.seek(length)
        os.fsync(handle.fileno())

    def write(self, name: str, data: bytes | npt.NDArray[Any]) -> None:
        """Append to a file; the data are safely on disk only after :meth:`sync`."""
        self._handles[name].write(data.data if isinstance(data, np.ndarray) else data)

    def sync(self, name: str) -> None:
        """Flush a file and sync it to disk."""
        self._handles[name].flush()
        os.fsync(self._handles[name].fileno())

    def take_back(self, name: str, length: int) -> None:
        """Truncate a file to ``length`` bytes after a failed sync; the page cache may still show its end (fsync(2))."""
        with suppress(OSError):
            os.ftruncate(self._handles[name].fileno(), length)

    def check_in_place(self) -> None:
        """Raise :class:`ResourceError` if the path no longer leads to the directory that was opened."""
        with suppress(FileNotFoundError):
            if os.path.samestat(self._directory.stat(), os.fstat(self._lock)):
                return
        raise ResourceError(
            str(self._directory),
            "the directory was removed or replaced while it was written",
            remedy="Do not change the directory during a build, and run it again",
        )

    def close(self) -> None:
        """Close the files and release the lock; closing again has no effect."""
        for handle in self._handles.values():
            # Data that cannot be flushed belong to uncommitted rows.
            with suppress(OSError):
                handle.close()
        self._handles = {}
        self._held.close()
