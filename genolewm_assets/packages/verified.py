"""Packages that this machine has hashed already, so that opening one again reads none of its tables.

::

    <cache folder>/verified/<digest of the package's path>.json    {"directory", "files"}

A record holds while every file has its device, inode, size, modification and change time; of a file with several names
without the change time, which each further name changes. No digest covers it, so it counts only if nobody but the user
can have written it (``own_caches``).
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from genolewm_assets.errors import GenoLeWMError
from genolewm_assets.own_caches import is_own, own_cache
from genolewm_assets.packages.damage import find_package_damage
from genolewm_assets.progress import NO_PROGRESS, ByteCount
from genolewm_assets.store.artefacts import MANIFEST, Damage, list_files
from genolewm_assets.store.files import canonical_json, read_document, write_atomic
from genolewm_assets.store.locks import guarded

#: Device, inode, size in bytes, modification and change time in nanoseconds of every file, by path.
_Stamps: TypeAlias = Mapping[str, tuple[int, ...]]

#: A file that changed this short a time before it was hashed may change again without another time (FAT: two seconds).
_SETTLED_NS: Final = 2_000_000_000
#: Seconds that a process waits for another one that hashes the same package.
_WAIT_S: Final = 3_600.0


def find_damage_once(directory: Path, *, again: bool = False) -> list[Damage]:
    """Compare every file of a package with its records, unless that was done and no file has changed since.

    Of processes that open it at once the first one hashes it, the others find its record. ``again`` hashes it always.
    """
    record = _Record(directory)
    if not again and record.holds(_stamps(directory)):
        return []
    with record.locked():
        stamps, now_ns = _stamps(directory), time.time_ns()
        if not again and record.holds(stamps):
            return []
        damages = list(find_package_damage(directory, ByteCount(NO_PROGRESS, 0)))
        settled = all(now_ns - max(stamp[-2:]) > _SETTLED_NS for stamp in stamps.values())
        if not damages and settled and _stamps(directory) == stamps:
            record.write(stamps)
    return damages


@dataclass(frozen=True, slots=True)
class _Record:
    """Record of one package; where it cannot be read or written, there is none."""

    directory: Path

    @property
    def path(self) -> Path:
        """Path of the record; raises OSError if there is no folder for it."""
        name = hashlib.sha256(os.fsencode(self.directory)).hexdigest()[:32]
        return own_cache("verified") / f"{name}.json"

    def holds(self, stamps: _Stamps) -> bool:
        """Tell whether the record is of files with these stamps, and the user's own."""
        with suppress(OSError, GenoLeWMError):
            path = self.path
            return is_own(path) and bool(self._content(stamps) == read_document(path, remedy=""))
        return False

    def write(self, stamps: _Stamps) -> None:
        with suppress(OSError, GenoLeWMError):
            path = self.path
            write_atomic(path, canonical_json(self._content(stamps), str(path)))
            path.chmod(0o600)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Wait for other processes that hash the package; where no lock can be had, do not wait."""
        with ExitStack() as held:
            with suppress(OSError):  # among them that another process holds it for too long
                held.enter_context(guarded(self.path.with_suffix(".lock"), _WAIT_S))
            yield

    def _content(self, stamps: _Stamps) -> dict[str, object]:
        return {"directory": str(self.directory), "files": {path: list(stamp) for path, stamp in stamps.items()}}


def _stamps(directory: Path) -> _Stamps:
    """Return the stamps of the files of a package, its manifest included."""
    stamps: dict[str, tuple[int, ...]] = {}
    for path in (*list_files(directory), MANIFEST):
        with suppress(FileNotFoundError):
            found = (directory / path).lstat()
            changed_ns = found.st_mtime_ns if found.st_nlink > 1 else found.st_ctime_ns
            stamps[path] = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, changed_ns)
    return stamps
