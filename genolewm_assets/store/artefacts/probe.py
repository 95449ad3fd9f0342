"""Test once, before a folder becomes a root or a cache, whether its file system has every required feature."""

from __future__ import annotations

import errno
import mmap
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

from genolewm_assets.errors import RootError
from genolewm_assets.store.files import remove_tree
from genolewm_assets.store.locks import flock

_PROBE = ".probe."
_DATA = b"genolewm\n"
# Errors of a full or failing storage, or of limits of this process; they do not mean that a feature is missing.
_STORAGE_ERRNOS = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ESTALE}
)


def check_file_system(folder: Path) -> None:
    """Test every file-system feature that a root or a cache needs, and remove the test files.

    The folder exists, and only the caller uses it; the files of a killed test in it are removed.

    Raises
    ------
    RootError
        If a feature is missing; the message names each, how it was tested, and the error of the system.
    OSError
        If the folder cannot be written at all, or the disk is full or failing.
    """
    for left in folder.glob(f"{_PROBE}*"):
        remove_tree(left)
    missing = []
    for feature, (tried, works) in _FEATURES.items():
        probe = folder / f"{_PROBE}{secrets.token_hex(4)}"
        probe.mkdir()
        try:
            refusal = None if works(probe) else "it had no effect"
        except OSError as err:
            if err.errno in _STORAGE_ERRNOS or not probe.is_dir():
                raise
            refusal = err.strerror or str(err)
        finally:
            remove_tree(probe)
        if refusal is not None:
            missing.append(f"no {feature} ({tried}: {refusal})")
    if missing:
        raise RootError(
            str(folder),
            f"the file system here cannot hold a root or a cache: {'; '.join(missing)}",
            remedy="Choose a folder on a local disk (ext4, XFS, Btrfs) or on NFS with locks, not on FAT, exFAT, an "
            "object store or a shared folder of another system",
        )


def _syncs_files(probe: Path) -> bool:
    with (probe / "a").open("xb") as handle:
        handle.write(_DATA)
        handle.flush()
        os.fsync(handle.fileno())
    return (probe / "a").read_bytes() == _DATA


def _syncs_folders(probe: Path) -> bool:
    descriptor = os.open(probe, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return True


def _renames_over(probe: Path) -> bool:
    (probe / "a").write_bytes(_DATA)
    (probe / "b").write_bytes(b"")
    os.replace(probe / "a", probe / "b")  # noqa: PTH105 - the crash tests kill at the functions of `os`
    return [path.name for path in probe.iterdir()] == ["b"] and (probe / "b").read_bytes() == _DATA


def _renames_folders(probe: Path) -> bool:
    (probe / "a").mkdir()
    (probe / "a" / "f").write_bytes(_DATA)
    os.rename(probe / "a", probe / "b")  # noqa: PTH104
    return (probe / "b" / "f").read_bytes() == _DATA


def _symlinks(probe: Path) -> bool:
    os.symlink(".gen/a", probe / "link")  # noqa: PTH211
    return os.readlink(probe / "link") == ".gen/a"  # noqa: PTH115


def _renames_links_over(probe: Path) -> bool:
    for name in ("a", "b"):
        os.symlink(f".gen/{name}", probe / name)  # noqa: PTH211
    os.replace(probe / "b", probe / "a")  # noqa: PTH105
    return os.readlink(probe / "a") == ".gen/b" and not os.path.lexists(probe / "b")  # noqa: PTH115


def _maps_files(probe: Path) -> bool:
    (probe / "a").write_bytes(_DATA)
    with (probe / "a").open("rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as view:
        return view[:] == _DATA


def _locks(probe: Path) -> bool:
    """Lock a file twice; the second lock must be refused."""
    with (probe / "a").open("w+b") as first, (probe / "a").open("r+b") as second:
        return flock(first.fileno()) and not flock(second.fileno())


def _sets_modification_times(probe: Path) -> bool:
    with (probe / "a").open("xb") as handle:
        os.utime(handle.fileno(), (0, 0))
        before = os.fstat(handle.fileno()).st_mtime
        os.utime(handle.fileno())
        return before < os.fstat(handle.fileno()).st_mtime


#: What is tried of each feature, and its test in an empty folder, which is False or an OSError if it is missing.
_FEATURES: Mapping[str, tuple[str, Callable[[Path], bool]]] = {
    "fsync of files": ("fsync of a file", _syncs_files),
    "fsync of folders": ("fsync of a folder", _syncs_folders),
    "renaming over a file": ("rename of a file over another", _renames_over),
    "renaming of folders": ("rename of a folder that is not empty", _renames_folders),
    "symbolic links": ("symlink", _symlinks),
    "renaming over a symbolic link": ("rename of a link over another", _renames_links_over),
    "memory mapping": ("mmap of a file for reading", _maps_files),
    "locks": ("flock of a file that is locked", _locks),
    "modification times": ("utime of an open file", _sets_modification_times),
}
