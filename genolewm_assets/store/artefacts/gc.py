"""Remove superseded generations, the files made from them, and the work directories of killed builds.

A generation is kept if it is an input in a manifest under ``packages/``, or of such a generation. A file derived from a
generation is kept as long as that generation is there and a build has used the file within a month.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from genolewm_assets.errors import (
    BusyError,
    ConfigurationError,
    CorruptResourceError,
    MissingResourceError,
    ResourceError,
)
from genolewm_assets.store.artefacts.derived import DERIVED, unused_files
from genolewm_assets.store.artefacts.inventory import derived, generations, unfinished_files
from genolewm_assets.store.artefacts.manifest import MANIFEST
from genolewm_assets.store.artefacts.root import DIGESTS, REJECTED, Root, enclosing_root
from genolewm_assets.store.artefacts.work import RESUMABLE
from genolewm_assets.store.files import (
    generations_in,
    is_linked,
    link_of_generation,
    read_document,
    reading,
    remove_tree,
    split_generation_name,
    walk,
)

PACKAGES = "packages"

#: Seconds for which a resumable work directory is kept after its last modification.
_RESUMABLE_FOR_S = 30 * 24 * 3600.0


class Reason(StrEnum):
    """Reason for removal: a superseded generation, or an abandoned build or temporary file."""

    SUPERSEDED = "superseded"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True)
class Removed:
    """A file or directory that was removed, or would be: root-relative path, size in bytes, reason."""

    path: str
    size_bytes: int
    why: Reason


def collect_garbage(root: Root, *, dry_run: bool = False) -> list[Removed]:
    """Remove superseded generations and abandoned builds from a root; with ``dry_run``, only list them.

    While any build is running, no generation is removed, because the build may be reading it.

    Raises
    ------
    MissingResourceError
        If the folder is not a root.
    CorruptResourceError
        If a manifest that decides what is pinned cannot be read; nothing is removed then.
    ResourceError
        If a folder cannot be read (nothing is removed then), or a path cannot be removed.
    """
    root.check_is_root()
    with reading(root.path):
        garbage = list(_garbage(root, _pinned_digests(root)))
    return _dispose(root, garbage, dry_run=dry_run)


def sweep_caches(cache_dir: Path, *, dry_run: bool = False) -> list[Removed]:
    """Remove superseded and abandoned caches from a folder of array caches outside any root; no package pins them.

    A reader of a superseded cache can use the arrays that it has already mapped, but can open no others. With
    ``dry_run``, caches are only listed; paths are relative to ``cache_dir``.

    Raises
    ------
    ConfigurationError
        If the folder is a root or is inside one; use :func:`collect_garbage`, which respects pins.
    MissingResourceError, ResourceError
        If the folder does not exist; otherwise as :func:`collect_garbage`.
    """
    root = Root(cache_dir)
    if not root.path.is_dir():
        raise MissingResourceError(str(cache_dir), "no such folder", remedy="Check the path")
    if (owner := enclosing_root(root.path)) is not None:
        raise ConfigurationError(
            str(cache_dir), f"belongs to the root {owner}, whose packages pin caches", remedy="Use genolewm gc"
        )
    with reading(root.path):
        # Subfolders are not entered; they may be other cache folders or roots.
        folders = (root.path, root.path / REJECTED)
        unlinked = [path for folder in folders for path in generations_in(folder) if not is_linked(path)]
        garbage = [
            *_abandoned(root),
            *(_Garbage(link_of_generation(path).name, path, Reason.SUPERSEDED, _size_bytes(path)) for path in unlinked),
        ]
    return _dispose(root, garbage, dry_run=dry_run)


@dataclass(frozen=True, slots=True)
class _Garbage:
    """A path to remove, while the lock of its location is free; ``location`` is None for a single file.

    A file that is ``made_of`` a generation stays with it.
    """

    location: str | None
    path: Path
    why: Reason
    size_bytes: int
    made_of: Path | None = None

    def remove(self, root: Root) -> bool:
        """Remove the path; return False if its location is busy, or it was linked or removed since it was listed."""
        if self.location is None:
            if self.made_of is not None and self.made_of.is_dir():
                return False
            remove_tree(self.path)
            return True
        try:
            with root.while_free(self.location):
                if self.why is Reason.SUPERSEDED and is_linked(self.path):
                    return False
                # Renamed first, so that a kill cannot leave an incomplete generation.
                doomed = root.work_dir(self.location) / self.path.name
                os.rename(self.path, doomed)  # noqa: PTH104
                remove_tree(doomed)
                doomed.parent.rmdir()
        except (BusyError, FileNotFoundError):
            return False
        return True


def _dispose(root: Root, garbage: Iterable[_Garbage], *, dry_run: bool) -> list[Removed]:
    with root.storage_errors(""):
        removed = (item for item in garbage if dry_run or item.remove(root))
        return [Removed(str(item.path.relative_to(root.path)), item.size_bytes, item.why) for item in removed]


def _garbage(root: Root, pinned: set[str]) -> Iterator[_Garbage]:
    yield from _abandoned(root)
    if any(root.is_locked(location) for location in root.locations_at_work()):
        return
    doomed = set[Path]()
    for base in (root.path, root.path / REJECTED):
        for generation in generations(base):
            parts = split_generation_name(generation.name)
            keep = is_linked(generation) or generation.is_relative_to(root.path / PACKAGES)
            if not keep and parts is not None and parts[1] not in pinned:
                location = str(link_of_generation(generation).relative_to(base))
                doomed.add(generation)
                yield _Garbage(location, generation, Reason.SUPERSEDED, _size_bytes(generation))
    for path in derived(root.path):
        generation = path.with_suffix("")
        if generation in doomed or not generation.is_dir():
            yield _Garbage(None, path, Reason.SUPERSEDED, _size_bytes(path), generation)
    digests = {path.name[-12:] for path in generations(root.path)}
    # A list, because removing a file before its record is looked at would hide when it was used.
    for path in [*unused_files(root.path / DERIVED, digests)]:
        yield _Garbage(None, path, Reason.SUPERSEDED, _size_bytes(path))
    for base in (root.path, root.path / REJECTED, root.path / DIGESTS, root.path / DERIVED):
        for path in unfinished_files(base):
            yield _Garbage(None, path, Reason.ABANDONED, _size_bytes(path))


def _abandoned(root: Root) -> Iterator[_Garbage]:
    for location in root.locations_at_work():
        for path in root.leftovers(location) if not root.is_locked(location) else ():
            if not _is_resumable(path):
                yield _Garbage(location, path, Reason.ABANDONED, _size_bytes(path))


def _is_resumable(path: Path) -> bool:
    """Return whether a work directory is resumable and recent enough to keep; it can hold days of work."""
    if not path.name.startswith(RESUMABLE):
        return False
    latest = max((file.lstat().st_mtime for file in [path, *path.iterdir()]), default=0.0)
    return time.time() - latest < _RESUMABLE_FOR_S


def _pinned_digests(root: Root) -> set[str]:
    """Return the first 12 digits of every manifest digest that a package names, directly or through its inputs."""
    packages = root.path / PACKAGES
    manifests = {generation.name[-12:]: generation / MANIFEST for generation in generations(root.path)}
    # Packages whose manifest is missing are included, so that reading it fails: their pins are unknown.
    named = {path for path in manifests.values() if path.is_relative_to(packages)}
    waiting = sorted(named | {folder / MANIFEST for folder, _, names in walk(packages) if MANIFEST in names})
    pinned: set[str] = set()
    while waiting:
        for sha256 in _named_digests(waiting.pop()):
            if sha256[:12] not in pinned:
                pinned.add(sha256[:12])
                waiting += [manifests[sha256[:12]]] if sha256[:12] in manifests else []
    return pinned


def _named_digests(path: Path) -> Iterator[str]:
    """Yield every ``manifest_sha256`` in a JSON file, at any depth: of inputs and of caches stored by reference."""
    try:
        waiting: list[object] = [read_document(path, remedy="")]
    except ResourceError as err:
        raise CorruptResourceError(
            str(path),
            f"{err.problem}, so what it pins is unknown and nothing was removed",
            remedy="Rebuild or remove that package, then run this again",
        ) from err
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if isinstance(digest := value.get("manifest_sha256"), str):
                yield digest
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def _size_bytes(path: Path) -> int:
    plain = path.is_symlink() or not path.is_dir()
    total = 0
    for item in [path] if plain else [folder / name for folder, _, names in walk(path) for name in names]:
        # A build that has started meanwhile may be removing it.
        with suppress(FileNotFoundError):
            total += item.lstat().st_size
    return total
