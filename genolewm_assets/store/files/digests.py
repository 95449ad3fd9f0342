"""Digests of the files of one folder; a file that was hashed and has kept its identity since is not read again.

Identity: inode, size, modification and change time. ``<generation>.digests`` beside a published folder has the digest
of each of its files under its identity; no digest covers it. Decision 101 says what is found so. A file that is linked
from another published folder has its identity in the record of that folder, since every further link changes it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeAlias

from genolewm_assets.errors import GenoLeWMError
from genolewm_assets.progress import NO_PROGRESS, ByteCount
from genolewm_assets.store.files.atomic import write_atomic
from genolewm_assets.store.files.canonical_json import canonical_json
from genolewm_assets.store.files.generations import GENERATIONS
from genolewm_assets.store.files.plain import open_regular, read_document

#: Suffix of the record beside a published folder.
DIGESTS_SUFFIX = ".digests"

#: Set to ``all`` where times of files mean nothing (SMB, some FUSE): every file is then hashed whenever it is opened.
HASHED = "GENOLEWM_HASHED"

#: Inode, size in bytes, modification and change time in nanoseconds. Not the device: a network file system gets another
#: number with each mount.
Identity: TypeAlias = tuple[int, ...]

_BLOCK_BYTES = 1 << 20
#: Errors of a file system that cannot give a file another name here.
_NO_LINKS = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EACCES, errno.ENOSYS})
# A file that changed so short a time before it was read may change again under the same times. Local file systems take
# their times from the kernel's clock, which ticks every 10 ms at most; FAT keeps every second one.
_TICK_NS, _COARSE_NS = 50_000_000, 2_000_000_000


class Measured(NamedTuple):
    """Size in bytes and SHA-256 (hex) of a file, and its identity; None if it may change under the same one.

    ``home``: of a linked file, the file that it is linked from, relative to its own folder.
    """

    size_bytes: int
    sha256: str
    identity: Identity | None
    home: str = ""


def measure_file(path: Path, count: ByteCount | None = None) -> Measured:
    """Hash a regular file, read once; raises as :func:`open_regular`."""
    digest, size_bytes, block = hashlib.sha256(), 0, memoryview(bytearray(_BLOCK_BYTES))
    count = count or ByteCount(NO_PROGRESS, 0)
    with open_regular(path) as handle:
        before, now_ns = os.fstat(handle.fileno()), time.time_ns()
        while length := handle.readinto(block):
            digest.update(block[:length])
            size_bytes += length
            count.add(length)
        after = os.fstat(handle.fileno())
    newest = max(after.st_mtime_ns, after.st_ctime_ns)
    is_settled = now_ns - newest > (_TICK_NS if newest % 1_000_000 else _COARSE_NS)
    kept = _identity(before) == _identity(after) and is_settled
    return Measured(size_bytes, digest.hexdigest(), _identity(after) if kept else None)


class FileDigests:
    """Digests of the files of one folder, measured or, if it is a published one, recorded.

    Parameters
    ----------
    again
        Hash every file, whatever is recorded.
    """

    def __init__(self, directory: Path, *, again: bool = False) -> None:
        self._directory = directory
        self._recorded = {} if again or os.environ.get(HASHED) == "all" else _read(directory)
        self._found: dict[str, Measured] = {}

    def known(self, path: str) -> Measured | None:
        """Return what is recorded of a file, by relative path, that has kept its identity; None for any other file."""
        found = self._found.get(path) or self._recorded.get(path)
        with suppress(OSError):
            if found and found.identity == (identity := _identity((self._directory / path).lstat())):
                return found
            if found and found.home:
                home = Path(os.path.normpath((self._directory / path).parent / found.home))
                generation = next(each for each in home.parents if each.parent.name == GENERATIONS)
                at_home = _read(generation).get(home.relative_to(generation).as_posix())
                if at_home and (at_home.sha256, at_home.identity) == (found.sha256, identity):
                    return found._replace(identity=identity)
        return None

    def link(self, published: Path, name: str, path: str) -> bool:
        """Give a file of a published folder a second name, ``path`` in this folder, and take over its digest.

        Returns
        -------
        bool
            False if the file was copied, because the file system makes no such link.

        Raises
        ------
        OSError
            If the file cannot be read, or the new one cannot be written.
        """
        source, target, digests = published / name, self._directory / path, FileDigests(published)
        target.parent.mkdir(parents=True, exist_ok=True)
        known = digests.of(name, ByteCount(NO_PROGRESS, 0))
        try:
            os.link(source, target)
        except OSError as err:
            if err.errno not in _NO_LINKS:
                raise
            shutil.copyfile(source, target)
            return False
        linked = _identity(target.lstat())
        # Only the change time differs: what is written meanwhile has another modification time.
        if known.identity is not None and linked[:-1] == known.identity[:-1]:
            digests._found[name] = known = known._replace(identity=linked)
            digests.keep(published)
            self._found[path] = known._replace(home=str(source))
        return True

    def of(self, path: str, count: ByteCount) -> Measured:
        """Return the digest of a file by relative path, hashing it if it is not known; raises OSError."""
        found = self._found[path] = self.known(path) or measure_file(self._directory / path, count)
        return found

    def keep(self, published: Path) -> None:
        """Record also the files asked for, of a published folder, if its record lacks one and can be written."""
        settled = self._recorded | {path: found for path, found in self._found.items() if found.identity is not None}
        if settled == self._recorded or published.parent.name != GENERATIONS:
            return
        content = {}
        for path, found in settled.items():
            folder = (published / path).parent
            # Relative, so that a root can be moved.
            home = [os.path.relpath(folder / found.home, folder)] if found.home else []
            content[path] = [found.sha256, *(found.identity or ()), *home]
        with suppress(OSError):
            write_atomic(_record_of(published), canonical_json(content, str(published)))


def _record_of(directory: Path) -> Path:
    return directory.with_name(f"{directory.name}{DIGESTS_SUFFIX}")


def _read(directory: Path) -> dict[str, Measured]:
    """Return the recorded digests by path; none if the record is missing or damaged."""
    with suppress(OSError, GenoLeWMError, TypeError, ValueError, AttributeError):
        record = read_document(_record_of(directory), remedy="").items() if directory.parent.name == GENERATIONS else ()
        return {
            path: Measured(size, sha256, (inode, size, *rest[:2]), *rest[2:])
            for path, (sha256, inode, size, *rest) in record
        }
    return {}


def _identity(status: os.stat_result) -> Identity:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
