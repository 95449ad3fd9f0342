"""Files and directories that appear whole or not at all, also after kill -9 or a power cut."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Give an OSError the name of the file: calls by descriptor, such as write and fsync, do not know it."""
    try:
        yield
    except OSError as err:
        if err.filename is None:
            err.filename = str(path)
        raise


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file so that readers see the old bytes or the new ones, also after a power cut.

    Raises
    ------
    OSError
        If the file system refuses; the old file is untouched and nothing else is left behind.
    """
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with naming(path), scratch.open("xb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(scratch, path)  # noqa: PTH105 - the crash tests kill at the functions of `os`
    except BaseException:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Force a directory's entries to disk, so that renames in it outlive a power cut."""
    try:
        _sync(directory, os.O_DIRECTORY)
    except OSError as err:
        # Some network file systems have no such call for directories and write entries through at once.
        if err.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise


def sync_tree(directory: Path) -> None:
    """Force every file and directory below ``directory``, and itself, to disk."""
    for folder, _, names in os.walk(directory, topdown=False):
        for name in names:
            # Links have nothing of their own to sync, and opening a FIFO would block for ever.
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
    """Create a directory and its missing parents, each entry forced to disk."""
    chain = (directory, *directory.parents)
    n_missing = next(n for n, path in enumerate(chain) if path.is_dir())
    # The first one there may have been made by a process that was killed before it synced the entry.
    for path in reversed(chain[: n_missing + 1]):
        path.mkdir(exist_ok=True)
        # A parent that may be entered but not listed cannot be opened, so not synced either.
        with suppress(PermissionError):
            sync_directory(path.parent)


def remove_tree(path: Path) -> None:
    """Remove whatever stands at ``path``: a file, a link (never what it points to) or a directory; nothing is fine."""
    if path.is_dir() and not path.is_symlink():
        try:
            shutil.rmtree(path)
        except OSError as err:
            # It removes entries by their names alone, relative to open folders.
            err.filename = str(path)
            raise
    else:
        path.unlink(missing_ok=True)


def link_target(path: Path) -> str | None:
    """Return what a symlink says, None for anything else or nothing; one system call, so no race in between."""
    try:
        return os.readlink(path)  # noqa: PTH115 - a Path would normalise the text
    except OSError:
        return None
