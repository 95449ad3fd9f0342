"""Write files atomically and sync directories, so that kill -9 or a power cut leaves no partial file."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the file name to an OSError raised inside; calls on a descriptor, such as write and fsync, lack it."""
    try:
        yield
    except OSError as err:
        if err.filename is None:
            err.filename = str(path)
        raise


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file so that readers see the old bytes or all of the new ones, also after a power cut.

    Raises
    ------
    OSError
        If the file system refuses; the old file is unchanged and no temporary file remains.
    """
    with replacing(path) as handle:
        handle.write(data)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a new file that takes the place of ``path`` once the block ends without an error; else it is removed."""
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with naming(path), scratch.open("x+b") as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(scratch, path)  # noqa: PTH105 - the crash tests kill at the functions of `os`
    except BaseException:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Sync the entries of a directory to disk, so that renames in it survive a power cut."""
    try:
        _sync(directory, os.O_DIRECTORY)
    except OSError as err:
        # Some network file systems cannot sync a directory; they write its entries synchronously.
        if err.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise


def sync_tree(directory: Path) -> None:
    """Sync ``directory`` and every file and directory below it to disk."""
    for folder, _, names in os.walk(directory, topdown=False):
        for name in names:
            # A link has no content to sync; opening a FIFO would block for ever.
            if stat.S_ISREG((Path(folder) / name).lstat().st_mode):
                _sync(Path(folder) / name)
        sync_directory(Path(folder))


def _sync(path: Path, flags: int = 0) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | flags)
    try:
        with naming(path):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directories(directory: Path) -> None:
    """Create a directory and its missing parents, and sync each new entry to disk."""
    chain = (directory, *directory.parents)
    n_missing = next(n for n, path in enumerate(chain) if path.is_dir())
    # The nearest existing parent is synced too: its creator may have been killed before the sync.
    for path in reversed(chain[: n_missing + 1]):
        path.mkdir(exist_ok=True)
        # A parent without read permission cannot be opened, so its entries cannot be synced.
        with suppress(PermissionError):
            sync_directory(path.parent)


def remove_tree(path: Path) -> None:
    """Remove a file, a link (not its target) or a directory with its content; a missing path is no error."""
    if path.is_dir() and not path.is_symlink():
        try:
            shutil.rmtree(path)
        except OSError as err:
            # rmtree reports a name relative to an open folder.
            err.filename = str(path)
            raise
    else:
        path.unlink(missing_ok=True)


def link_target(path: Path) -> str | None:
    """Return the target text of a symlink; None if the path is missing or no symlink. One system call, so no race."""
    try:
        return os.readlink(path)  # noqa: PTH115 - a Path would normalise the text
    except OSError:
        return None
