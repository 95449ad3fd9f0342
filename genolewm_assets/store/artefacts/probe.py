"""What a file system must be able to do to hold a root or a cache, tried once in a folder before it is used.

Whatever is missing would show later, and worse: in the middle of a build, or as damage after a power cut.
"""

from __future__ import annotations

import errno
import mmap
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from genolewm_assets.errors import RootError
from genolewm_assets.store.files import remove_tree
from genolewm_assets.store.locks import flock

_PROBE = ".probe."
_DATA = b"genolewm\n"
# These say that the storage fails or is full, or that this process may not, and nothing of what the file system can do.
_PASSING = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ESTALE}
)


@dataclass(frozen=True, slots=True)
class _Ability:
    """Something to try in an empty folder; False or an OSError where it does not work."""

    name: str
    tried: str
    works: Callable[[Path], bool]


def check_file_system(folder: Path) -> None:
    """Try everything that a root or a cache asks of its file system, and leave nothing behind.

    Parameters
    ----------
    folder
        An existing folder that the caller alone is at; what a killed check left there is removed.

    Raises
    ------
    RootError
        If anything is missing: what, how it was tried, and what the system said.
    OSError
        If the folder cannot be written at all, or the disk is full or failing.
    """
    for left in folder.glob(f"{_PROBE}*"):
        remove_tree(left)
    missing = []
    for ability in _ABILITIES:
        with _probe_folder(folder) as probe:
            if (refusal := _refusal(ability, probe)) is not None:
                missing.append(f"no {ability.name} ({ability.tried}: {refusal})")
    if missing:
        raise RootError(
            str(folder),
            f"the file system here cannot hold a root or a cache: {'; '.join(missing)}",
            remedy="Choose a folder on a local disk (ext4, XFS, Btrfs) or on NFS with locks, not on FAT, exFAT, an "
            "object store or a shared folder of another system",
        )


@contextmanager
def _probe_folder(folder: Path) -> Iterator[Path]:
    probe = folder / f"{_PROBE}{secrets.token_hex(4)}"
    probe.mkdir()
    try:
        yield probe
    finally:
        remove_tree(probe)


def _refusal(ability: _Ability, probe: Path) -> str | None:
    """Return why an ability is missing; None if it is there."""
    try:
        return None if ability.works(probe) else "it did nothing"
    except OSError as err:
        if err.errno in _PASSING or not probe.is_dir():
            raise
        return err.strerror or str(err)


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


def _links(probe: Path) -> bool:
    os.symlink(".gen/a", probe / "link")  # noqa: PTH211
    return os.readlink(probe / "link") == ".gen/a"  # noqa: PTH115


def _renames_links_over(probe: Path) -> bool:
    for name in ("a", "b"):
        os.symlink(f".gen/{name}", probe / name)  # noqa: PTH211
    os.replace(probe / "b", probe / "a")  # noqa: PTH105
    return os.readlink(probe / "a") == ".gen/b" and not os.path.lexists(probe / "b")  # noqa: PTH115


def _maps(probe: Path) -> bool:
    (probe / "a").write_bytes(_DATA)
    with (probe / "a").open("rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as view:
        return view[:] == _DATA


def _locks(probe: Path) -> bool:
    """Lock a file twice: the second must be refused."""
    with (probe / "a").open("w+b") as first, (probe / "a").open("r+b") as second:
        return flock(first.fileno()) and not flock(second.fileno())


def _stamps(probe: Path) -> bool:
    with (probe / "a").open("xb") as handle:
        os.utime(handle.fileno(), (0, 0))
        before = os.fstat(handle.fileno()).st_mtime
        os.utime(handle.fileno())
        return before < os.fstat(handle.fileno()).st_mtime


_ABILITIES = (
    _Ability("fsync of files", "fsync of a file", _syncs_files),
    _Ability("fsync of folders", "fsync of a folder", _syncs_folders),
    _Ability("renaming over a file", "rename of a file over another", _renames_over),
    _Ability("renaming of folders", "rename of a folder that is not empty", _renames_folders),
    _Ability("symbolic links", "symlink", _links),
    _Ability("renaming over a symbolic link", "rename of a link over another", _renames_links_over),
    _Ability("memory mapping", "mmap of a file for reading", _maps),
    _Ability("locks", "flock of a file that is locked", _locks),
    _Ability("modification times", "utime of an open file", _stamps),
)
