"""The root folder: the catalogue that owns it, its layout, and the locks of its locations.

::

    <root>/root.json                       catalogue and genome that the root belongs to
    <root>/work/<location, '~' for '/'>/   lock, lock.json (lease.py), and the work directories of one location:
                                           build.<random>.<mark>, and resume.<digest>.<mark>, which can be resumed
    <root>/rejected/<location>             link to the latest build of a location, if it was rejected
    <root>/<location>                      link to the published generation
"""

from __future__ import annotations

import errno
import os
import re
import reprlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from genolewm_assets.errors import CorruptResourceError, GenoLeWMError, MissingResourceError, ResourceError, RootError
from genolewm_assets.store.artefacts.probe import check_file_system
from genolewm_assets.store.artefacts.work import leftovers, sweep, work_directory
from genolewm_assets.store.files import (
    JsonValue,
    canonical_json,
    check_plain_folder,
    make_directories,
    read_document,
    write_atomic,
)
from genolewm_assets.store.locks import GUARD, WriterLease, check_clear, guarded, is_held, while_free

ROOT_FILE = "root.json"
WORK = "work"
REJECTED = "rejected"
#: Folder of the recorded digests of source files.
DIGESTS = f"{WORK}/digests"
#: Names at the top of a root at which no artefact can be published.
RESERVED = frozenset({ROOT_FILE, WORK, REJECTED, "dagster"})

_SCHEMA, _SCHEMA_VERSION = "genolewm.root", "1.0"
# File systems allow 255 bytes for one name; a digest, dots and a suffix must fit too.
_MAX_NAME_BYTES = 200
_ELSEWHERE = "Choose another root (--root or GENOLEWM_ROOT)"
_RESTORE = "Restore the file or choose another root"
_REMEDIES = {
    errno.ENOSPC: "Free some space (genolewm gc) and run it again",
    errno.EDQUOT: "Free some space (genolewm gc) or raise the quota, and run it again",
    errno.EFBIG: "Raise the limit on file sizes and run it again",
    errno.EROFS: "Make the root writable and run it again",
    errno.EACCES: "Make the root writable and run it again",
    errno.EPERM: "Make the root writable and run it again",
    errno.EXDEV: "Keep the whole root, work/ included, on one file system",
    errno.EIO: "Check the disk and run it again",
}


def enclosing_root(directory: Path) -> Path | None:
    """Return the root that is ``directory`` or contains it; None if there is none."""
    return next((path for path in (directory, *directory.parents) if (path / ROOT_FILE).is_file()), None)


def _resolved(path: Path) -> Path:
    try:
        resolved = path.resolve()
    except (OSError, RuntimeError, ValueError) as err:  # a loop of symlinks; a NUL
        raise RootError(ascii(str(path)), f"not a path of a root ({err})", remedy=_ELSEWHERE) from err
    # Tables, databases and messages hold paths as UTF-8 text, one to a line.
    if re.search(r"[\x00-\x1f\x7f\ud800-\udfff]", str(resolved)):
        raise RootError(
            ascii(str(resolved)),
            "the path of the root holds a control character or bytes that are not UTF-8",
            remedy=_ELSEWHERE,
        )
    return resolved


def _record(catalog: str, genome_digest: str) -> dict[str, JsonValue]:
    """Return the content of ``root.json``."""
    return {"schema": _SCHEMA, "schema_version": _SCHEMA_VERSION, "catalog": catalog, "genome_digest": genome_digest}


@dataclass(frozen=True, slots=True)
class Root:
    """The root folder of a catalogue, which contains all of its artefacts.

    Parameters
    ----------
    path
        The folder; it need not exist yet. Made absolute, with symlinks resolved.

    Raises
    ------
    RootError
        If the absolute path holds a control character, or bytes that are not UTF-8.
    """

    path: Path
    lock_wait_s: float = 30.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", _resolved(Path(self.path)))

    def claim(self, catalog: str, genome_digest: str) -> None:
        """Write ``root.json`` for a catalogue and a genome; if it exists, check that it names the same two.

        Parameters
        ----------
        genome_digest
            SHA-256 in hex over contig names, lengths and MD5s; see :func:`genolewm_assets.genome.genome_digest`.

        Raises
        ------
        RootError
            If the root belongs to another catalogue or genome, ``root.json`` is damaged, or the file system lacks a
            feature that a new root needs.
        """
        wanted = _record(catalog, genome_digest)
        path = self.path / ROOT_FILE
        if not path.exists():
            with self.storage_errors(ROOT_FILE), guarded(self._lock_folder("") / GUARD, self.lock_wait_s):
                for scratch in self.path.glob(f".{ROOT_FILE}.*.tmp"):
                    scratch.unlink()
                if not path.exists():
                    check_file_system(self.path)
                    write_atomic(path, canonical_json(wanted, str(path)))
        self.check_owner(catalog, genome_digest)

    def check_owner(self, catalog: str, genome_digest: str) -> None:
        """Raise :class:`RootError` if ``root.json`` names another catalogue or genome; raises as :meth:`owner` too."""
        found = self.owner()
        for name, value in _record(catalog, genome_digest).items():
            if found.get(name) != value:
                raise RootError(
                    str(self.path),
                    f"the root belongs to another {name.replace('_', ' ')}",
                    expected=repr(value),
                    got=reprlib.repr(found.get(name)),
                    remedy="Choose another root (GENOLEWM_ROOT), or the catalogue that this root was made with",
                )

    def check_is_root(self) -> None:
        """Raise :class:`MissingResourceError` if ``root.json`` is missing; raises as :meth:`owner` too."""
        path = self.path / ROOT_FILE
        if not path.is_file():
            raise MissingResourceError(
                str(self.path),
                "not a root",
                expected=f"a folder with {ROOT_FILE}",
                remedy="Check --root or GENOLEWM_ROOT",
            )
        self.owner()

    def owner(self) -> dict[str, object]:
        """Return the fields of ``root.json``.

        Raises
        ------
        RootError, ResourceError
            If it is missing or damaged, or cannot be read because of permissions or the disk.
        """
        path = self.path / ROOT_FILE
        try:
            found = read_document(path, remedy=_RESTORE)
        except (MissingResourceError, CorruptResourceError) as err:
            raise RootError(str(path), err.problem, expected=err.expected, remedy=_RESTORE) from err
        if not isinstance(found, dict):
            raise RootError(str(path), "is not the record of a root", remedy=_RESTORE)
        return found

    def path_of(self, relpath: str) -> Path:
        """Return the absolute path of a root-relative one; only its last part may be a symlink.

        Raises
        ------
        RootError
            If ``relpath`` is absolute, leads out of the root, or leads through a symlink or file.
        """
        parts = relpath.split("/")
        if {"", ".", ".."} & set(parts) or re.search(r"[\\\x00-\x1f]", relpath):
            raise RootError(str(self.path), "path not allowed in a root", expected="a relative path", got=repr(relpath))
        path = self.path
        for part in parts[:-1]:
            path /= part
            if path.is_symlink() or (path.exists() and not path.is_dir()):
                raise RootError(
                    str(path),
                    f"is a link or file, but {relpath!r} needs a folder here",
                    remedy="Keep the whole root on one file system, in plain folders",
                )
        return path / parts[-1]

    def link_of(self, location: str) -> Path:
        """Return the path of the link of a location, after checking that the location is allowed.

        Raises
        ------
        RootError
            If a part begins with ``.`` or contains ``~``, the location is longer than 200 bytes, or its first part is
            in :data:`RESERVED`.
        """
        path = self.path_of(location)
        parts = location.split("/")
        unfit = any(part.startswith(".") or "~" in part for part in parts)
        if unfit or parts[0] in RESERVED or len(location.encode()) > _MAX_NAME_BYTES:
            raise RootError(
                str(self.path),
                "artefacts cannot be published at this location",
                expected=f"folders without a leading '.', without '~', outside {sorted(RESERVED)}, "
                f"at most {_MAX_NAME_BYTES} bytes",
                got=repr(location),
            )
        return path

    def rejected_path(self, location: str) -> Path:
        """Return the path of the rejected build of a location; it exists only if the latest build was rejected."""
        self.link_of(location)
        return self.path_of(f"{REJECTED}/{location}")

    def is_rejected(self, location: str) -> bool:
        """Return whether the latest build of a location was rejected."""
        return os.path.lexists(self.rejected_path(location))

    @contextmanager
    def lock(self, location: str, *, wait_s: float | None = None) -> Iterator[WriterLease]:
        """Hold the lock of a location and yield its lease, which can verify that the lock is still held.

        Raises
        ------
        BusyError, ResourceError
            If another process still holds the lock after ``wait_s`` (None: ``lock_wait_s`` of the root); if the storage
            fails.
        """
        where = str(self.link_of(location))
        with self.storage_errors(location):
            lease = WriterLease(self._lock_folder(location), where)
            lease.acquire(self.lock_wait_s if wait_s is None else wait_s)
        with lease:
            yield lease

    @contextmanager
    def while_free(self, location: str) -> Iterator[None]:
        """Keep other processes from locking a location while the block runs, also on a full disk.

        Raises
        ------
        BusyError
            If a process holds the lock.
        """
        where = str(self.link_of(location))
        with while_free(self._lock_folder(location), where):
            yield

    def is_locked(self, location: str) -> bool:
        """Return whether a process holds the lock of a location; True if that cannot be found out."""
        return is_held(self._work_folder(location))

    def _work_folder(self, location: str) -> Path:
        return self.path / WORK / location.replace("/", "~")

    def _lock_folder(self, location: str) -> Path:
        """Return the folder of a lock, created if missing; raise as :func:`check_plain_folder`."""
        if self.path.exists() and not self.path.is_dir():
            raise RootError(str(self.path), "the root is not a folder", remedy="Choose another root (GENOLEWM_ROOT)")
        folder = self._work_folder(location)
        for part in (folder.parent, folder):
            check_plain_folder(part)
        check_clear(folder / GUARD)
        make_directories(folder)
        return folder

    def work_dir(self, location: str, lease: WriterLease | None = None, *, name: str | None = None) -> Path:
        """Return a work directory of a location that is locked or kept free: that called ``name``, else an empty one.

        Without the lease of the lock, others may remove the directory once the lock is lost.
        """
        self.link_of(location)
        return work_directory(self._work_folder(location), lease, name)

    def leftovers(self, location: str) -> list[Path]:
        """Return the paths in ``work/`` that killed builds of a location left; call it while its lock is free."""
        return leftovers(self._work_folder(location))

    def sweep(self, location: str, lease: WriterLease, *, keep: str | None = None) -> None:
        """Remove the work directories that killed builds of a location left; the caller holds its lock.

        Parameters
        ----------
        keep
            Name of the resumable work directories, which are kept; None removes all.

        Raises
        ------
        BusyError
            If the lock was lost; nothing is removed then.
        """
        sweep(self._work_folder(location), lease, keep=keep)

    def locations_at_work(self) -> list[str]:
        """Return the locations that have a lock in ``work/``, free or held, sorted."""
        folder = self.path / WORK
        # The store made only the folders with a lock file; others are ignored.
        paths = folder.iterdir() if folder.is_dir() else ()
        found = (path.name for path in paths if (path / GUARD).is_file() and not path.is_symlink())
        return sorted(name.replace("~", "/") for name in found)

    @contextmanager
    def storage_errors(self, location: str) -> Iterator[None]:
        """Convert an OSError of the root's disk (full, read-only, failing, removed) to a :class:`ResourceError`.

        An error that names a file outside the root, such as a source, is not converted.
        """
        try:
            yield
        except GenoLeWMError:
            raise
        except OSError as err:
            ours = self.is_storage_error(err)
            # EIO from a call on a descriptor names no file: the disk of the root or that of a source has failed.
            if not ours and (err.errno, err.filename) != (errno.EIO, None):
                raise
            if self._vanished(err):
                raise ResourceError(
                    str(self.path),
                    "was removed or moved while it was in use",
                    remedy="Do not touch it, and run this again",
                ) from err
            remedy = _REMEDIES.get(err.errno or 0, "Make room in the root and run it again")
            raise ResourceError(
                str(self.path / location),
                f"{'the storage refused to write' if ours else 'reading or writing failed'} ({err.strerror})",
                remedy=f"{remedy}; published artefacts are unchanged",
            ) from err

    def is_storage_error(self, err: BaseException | None) -> bool:
        """Return whether an error, or an error that it was raised from, is a failure of the root's storage."""
        while err is not None:
            if isinstance(err, OSError) and ((err.errno in _REMEDIES and self._is_ours(err)) or self._vanished(err)):
                return True
            err = err.__cause__
        return False

    def _vanished(self, err: OSError) -> bool:
        """Return whether an error was caused by removal of the whole root, not of a single file in it."""
        missing = isinstance(err, FileNotFoundError | NotADirectoryError) and self._is_ours(err)
        return missing and not (self.path / WORK).is_dir()

    def _is_ours(self, err: OSError) -> bool:
        """Return whether an error concerns the root, not a source file that the build may not read."""
        if err.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EXDEV}:
            return True
        named = [os.fsdecode(name) for name in (err.filename, err.filename2) if isinstance(name, str | bytes)]
        # The parents of a root are synced when it is created, so errors can name them too.
        return any(Path(name).is_relative_to(self.path) or self.path.is_relative_to(name) for name in named)
