"""The root folder: who owns it, where things lie in it, who is working on what.

::

    <root>/root.json                       catalogue and genome that the root belongs to
    <root>/work/<location, '~' for '/'>/   lock, lock.json (lease.py), and unfinished builds of one location:
                                           build.<random>.<mark>, and resume.<digest>.<mark>, which can be continued
    <root>/rejected/<location>             the latest build of a location, where it failed
    <root>/<location>                      link to the published generation
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from genolewm_assets.errors import GenoLeWMError, MissingResourceError, ResourceError, RootError
from genolewm_assets.store.artefacts.probe import check_file_system
from genolewm_assets.store.artefacts.work import leftovers, sweep, work_directory
from genolewm_assets.store.files import canonical_json, make_directories, write_atomic
from genolewm_assets.store.locks import GUARD, WriterLease, check_clear, guarded, is_held, while_free

ROOT_FILE = "root.json"
WORK = "work"
REJECTED = "rejected"
#: Folders at the top of a root that hold no published artefacts.
RESERVED = frozenset({ROOT_FILE, WORK, REJECTED, "dagster"})

_SCHEMA, _SCHEMA_VERSION = "genolewm.root", "1.0"
# 255 bytes is what file systems allow for one name; a digest, a dot and a suffix have to fit as well.
_MAX_NAME_BYTES = 200
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
    """Return the root that a directory is or lies in; None for one outside of any."""
    return next((path for path in (directory, *directory.parents) if (path / ROOT_FILE).is_file()), None)


@dataclass(frozen=True, slots=True)
class Root:
    """One root folder.

    Parameters
    ----------
    path
        The folder; need not exist yet. Kept absolute, symlinks resolved.
    lock_wait_s
        How long to wait for a lock that another process holds, in seconds.
    """

    path: Path
    lock_wait_s: float = 30.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path).resolve())

    def claim(self, catalog: str, genome_digest: str) -> None:
        """Make the root belong to a catalogue and a genome, or check that it does.

        Raises
        ------
        RootError
            If it belongs to another, ``root.json`` is damaged, or the file system lacks what a new root needs.
        """
        wanted = {
            "schema": _SCHEMA,
            "schema_version": _SCHEMA_VERSION,
            "catalog": catalog,
            "genome_digest": genome_digest,
        }
        path = self.path / ROOT_FILE
        if not path.exists():
            with self.storage_errors(ROOT_FILE), guarded(self._lock_folder("") / GUARD, self.lock_wait_s):
                for scratch in self.path.glob(f".{ROOT_FILE}.*.tmp"):
                    scratch.unlink()
                if not path.exists():
                    check_file_system(self.path)
                    write_atomic(path, canonical_json(wanted, str(path)))
        found = self._owner(path)
        for name, value in wanted.items():
            if found.get(name) != value:
                raise RootError(
                    str(self.path),
                    f"the root belongs to another {name.replace('_', ' ')}",
                    expected=repr(value),
                    got=repr(found.get(name)),
                    remedy="Choose another root (GENOLEWM_ROOT) or the catalogue that this one was made with",
                )

    def check_is_root(self) -> None:
        """Raise :class:`MissingResourceError` if nobody has claimed the folder, :class:`RootError` for a bad claim."""
        path = self.path / ROOT_FILE
        if not path.is_file():
            raise MissingResourceError(
                str(self.path),
                "not a root",
                expected=f"a folder with {ROOT_FILE}",
                remedy="Check --root or GENOLEWM_ROOT",
            )
        self._owner(path)

    def _owner(self, path: Path) -> dict[str, object]:
        try:
            found = json.loads(path.read_bytes())
        except (OSError, ValueError) as err:
            raise RootError(
                str(path), f"cannot be read ({err})", remedy="Restore the file or choose another root"
            ) from err
        return found if isinstance(found, dict) else {}

    def path_of(self, relpath: str) -> Path:
        """Return a path inside the root; no part of it but the last may be a symlink.

        Raises
        ------
        RootError
            If ``relpath`` is absolute, leaves the root, or leads through a symlink.
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
                    f"a link or file stands where {relpath!r} needs a folder",
                    remedy="Keep the whole root on one file system, in plain folders",
                )
        return path / parts[-1]

    def link_of(self, location: str) -> Path:
        """Return the path of a location's link, after checking that artefacts may be published there.

        Raises
        ------
        RootError
            If a part begins with ``.``, holds ``~``, is too long, or the folder is one the store keeps for itself.
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
        """Return where the latest build of a location lies if it failed; something is there only then."""
        self.link_of(location)
        return self.path_of(f"{REJECTED}/{location}")

    def is_rejected(self, location: str) -> bool:
        """Tell whether the latest build of a location failed."""
        return os.path.lexists(self.rejected_path(location))

    @contextmanager
    def lock(self, location: str, *, wait_s: float | None = None) -> Iterator[WriterLease]:
        """Hold the lock of a location; yields the lease, by which publishing makes sure that it is still held.

        Parameters
        ----------
        wait_s
            Seconds to wait; None for the root's ``lock_wait_s``.

        Raises
        ------
        BusyError
            If another holds it all that time.
        ResourceError
            If the storage refuses.
        """
        where = str(self.link_of(location))
        with self.storage_errors(location):
            lease = WriterLease(self._lock_folder(location), where)
            lease.acquire(self.lock_wait_s if wait_s is None else wait_s)
        with lease:
            yield lease

    @contextmanager
    def while_free(self, location: str) -> Iterator[None]:
        """Keep others from locking a location for a moment; takes no room on the disk, so that room can be made.

        Raises
        ------
        BusyError
            If somebody holds its lock.
        """
        where = str(self.link_of(location))
        with while_free(self._lock_folder(location), where):
            yield

    def is_locked(self, location: str) -> bool:
        """Tell whether somebody holds the lock of a location; when that cannot be found out, yes."""
        return is_held(self._work_folder(location))

    def _work_folder(self, location: str) -> Path:
        return self.path / WORK / location.replace("/", "~")

    def _lock_folder(self, location: str) -> Path:
        """Return the folder of a lock, made if missing, after checking that nothing else stands where it belongs."""
        if self.path.exists() and not self.path.is_dir():
            raise RootError(str(self.path), "the root is not a folder", remedy="Choose another root (GENOLEWM_ROOT)")
        folder = self._work_folder(location)
        for part in (folder.parent, folder):
            if os.path.lexists(part) and not part.is_dir():
                raise ResourceError(str(part), "is in the way of a lock", remedy="Remove it and run this again")
        check_clear(folder / GUARD)
        make_directories(folder)
        return folder

    def work_dir(self, location: str, lease: WriterLease | None = None, *, name: str | None = None) -> Path:
        """Return a work directory for a location whose lock the caller holds.

        Parameters
        ----------
        lease
            What :meth:`lock` yielded. Without it nothing protects the directory from others once the lock is lost.
        name
            Its name, if a directory of that name is to be continued where one was left; None for a new, empty one.
        """
        self.link_of(location)
        return work_directory(self._work_folder(location), lease, name)

    def leftovers(self, location: str) -> list[Path]:
        """Return what builds of a location left in ``work/`` and nobody is at, if nobody holds its lock."""
        return leftovers(self._work_folder(location))

    def sweep(self, location: str, lease: WriterLease, *, keep: str | None = None) -> None:
        """Remove what killed builds of a location left in ``work/``; the caller holds its lock.

        Parameters
        ----------
        lease
            What :meth:`lock` yielded; nothing is removed if the lock was lost.
        keep
            Name of the work directories that can be continued.
        """
        sweep(self._work_folder(location), lease, keep=keep)

    def locations_at_work(self) -> list[str]:
        """Return the locations that have been worked on in this root."""
        folder = self.path / WORK
        # Only folders with a lock are the store's own; anything else there is left alone.
        names = (path.name for path in folder.iterdir() if (path / GUARD).is_file()) if folder.is_dir() else ()
        return sorted(name.replace("~", "/") for name in names)

    @contextmanager
    def storage_errors(self, location: str) -> Iterator[None]:
        """Turn a full, read-only, failing or vanished disk under the root into a :class:`ResourceError` that says so.

        Errors that name a file elsewhere, such as a source, pass as they are.
        """
        try:
            yield
        except GenoLeWMError:
            raise
        except OSError as err:
            ours = self.is_storage_error(err)
            # A failing disk that a call by descriptor met: the root's, or one that a source is on.
            if not ours and (err.errno, err.filename) != (errno.EIO, None):
                raise
            if self._vanished(err):
                raise ResourceError(
                    str(self.path), "was removed or moved while it was in use", remedy="Leave it alone and run it again"
                ) from err
            remedy = _REMEDIES.get(err.errno or 0, "Make room in the root and run it again")
            raise ResourceError(
                str(self.path / location),
                f"{'the storage refused to write' if ours else 'reading or writing failed'} ({err.strerror})",
                remedy=f"{remedy}; what was published before is unchanged",
            ) from err

    def is_storage_error(self, err: BaseException | None) -> bool:
        """Tell whether the root's storage failed: in this error, or in one that it was raised from."""
        while err is not None:
            if isinstance(err, OSError) and ((err.errno in _REMEDIES and self._is_ours(err)) or self._vanished(err)):
                return True
            err = err.__cause__
        return False

    def _vanished(self, err: OSError) -> bool:
        """Tell whether an error comes of the root's having been taken away, and not of a file that is missing in it."""
        missing = isinstance(err, FileNotFoundError | NotADirectoryError) and self._is_ours(err)
        return missing and not (self.path / WORK).is_dir()

    def _is_ours(self, err: OSError) -> bool:
        """Tell a failing root from a source file that the build may not read."""
        if err.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EXDEV}:
            return True
        named = [os.fsdecode(name) for name in (err.filename, err.filename2) if isinstance(name, str | bytes)]
        # The folders that a root lies in are synced when it is made.
        return any(Path(name).is_relative_to(self.path) or self.path.is_relative_to(name) for name in named)
