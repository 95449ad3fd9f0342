"""Remove what nobody reaches any more: superseded generations and the remains of killed builds.

Never what a package pins: the inputs named in any manifest under ``packages/``, and theirs in turn. Where that cannot
be found out, because such a manifest is missing or a folder is unreadable, nothing at all is removed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from genolewm_assets.errors import BusyError, ConfigurationError, CorruptResourceError, MissingResourceError
from genolewm_assets.store.artefacts.inventory import generations, unfinished_files
from genolewm_assets.store.artefacts.manifest import MANIFEST
from genolewm_assets.store.artefacts.root import REJECTED, Root, enclosing_root
from genolewm_assets.store.artefacts.work import RESUMABLE
from genolewm_assets.store.files import (
    generations_in,
    is_linked,
    link_of_generation,
    reading,
    remove_tree,
    split_generation_name,
    walk,
)

PACKAGES = "packages"

#: An interrupted build that can be continued is kept so long.
_CONTINUED_WITHIN_S = 30 * 24 * 3600.0


class Reason(StrEnum):
    """Why something is garbage."""

    SUPERSEDED = "superseded"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True)
class Removed:
    """Something removed, or to be removed: root-relative path, bytes, reason."""

    path: str
    size_bytes: int
    why: Reason


def collect_garbage(root: Root, *, dry_run: bool = False) -> list[Removed]:
    """Remove garbage from a root.

    While any build is running, generations stay: it may be reading them.

    Parameters
    ----------
    dry_run
        Only list it.

    Raises
    ------
    MissingResourceError
        If the folder is no root.
    CorruptResourceError
        If a manifest that decides what is pinned cannot be read; nothing has been removed then.
    ResourceError
        If a folder cannot be read, and nothing has been removed then; or if something cannot be removed.
    """
    root.check_is_root()
    with reading(root.path):
        garbage = list(_garbage(root, _pinned_digests(root)))
    return _dispose(root, garbage, dry_run=dry_run)


def sweep_caches(cache_dir: Path, *, dry_run: bool = False) -> list[Removed]:
    """Remove garbage from a folder of array caches (``array_cache.py``), which no package can pin.

    A reader that opened a superseded cache keeps the arrays it has mapped and finds no others any more.

    Parameters
    ----------
    dry_run
        Only list it.

    Raises
    ------
    ConfigurationError
        If the folder is a root, or lies in one: what is pinned there, :func:`collect_garbage` knows.
    MissingResourceError
        If there is no such folder.
    ResourceError
        As :func:`collect_garbage`.
    """
    root = Root(cache_dir)
    if not root.path.is_dir():
        raise MissingResourceError(str(cache_dir), "no such folder", remedy="Check the path")
    if (owner := enclosing_root(root.path)) is not None:
        raise ConfigurationError(
            str(cache_dir), f"lies in the root {owner}, whose packages pin caches", remedy="Use genolewm gc"
        )
    with reading(root.path):
        # Not those of folders below, which may be other folders of caches, or roots.
        unlinked = [path for path in generations_in(root.path) if not is_linked(path)]
        garbage = [
            *_abandoned(root),
            *(_Garbage(link_of_generation(path).name, path, Reason.SUPERSEDED, _size_bytes(path)) for path in unlinked),
        ]
    return _dispose(root, garbage, dry_run=dry_run)


@dataclass(frozen=True, slots=True)
class _Garbage:
    """Something to remove, under the lock of its location if it has one."""

    location: str | None
    path: Path
    why: Reason
    size_bytes: int

    def entry(self, root: Root) -> Removed:
        return Removed(str(self.path.relative_to(root.path)), self.size_bytes, self.why)

    def remove(self, root: Root) -> bool:
        """Remove it unless its location has become busy, or it has been linked, since it was listed."""
        if self.location is None:
            remove_tree(self.path)
            return True
        try:
            with root.while_free(self.location):
                if self.why is Reason.SUPERSEDED and is_linked(self.path):
                    return False
                # Renamed first: a kill in the middle must not leave a generation of which files are missing.
                doomed = root.work_dir(self.location) / self.path.name
                os.rename(self.path, doomed)  # noqa: PTH104
                remove_tree(doomed)
                doomed.parent.rmdir()
        except (BusyError, FileNotFoundError):
            return False
        return True


def _dispose(root: Root, garbage: Iterable[_Garbage], *, dry_run: bool) -> list[Removed]:
    with root.storage_errors(""):
        return [item.entry(root) for item in garbage if dry_run or item.remove(root)]


def _garbage(root: Root, pinned: set[str]) -> Iterator[_Garbage]:
    yield from _abandoned(root)
    if any(root.is_locked(location) for location in root.locations_at_work()):
        return
    for base in (root.path, root.path / REJECTED):
        for generation in generations(base):
            parts = split_generation_name(generation.name)
            keep = is_linked(generation) or generation.is_relative_to(root.path / PACKAGES)
            if not keep and parts is not None and parts[1] not in pinned:
                location = str(link_of_generation(generation).relative_to(base))
                yield _Garbage(location, generation, Reason.SUPERSEDED, _size_bytes(generation))
        for path in unfinished_files(base):
            yield _Garbage(None, path, Reason.ABANDONED, _size_bytes(path))


def _abandoned(root: Root) -> Iterator[_Garbage]:
    for location in root.locations_at_work():
        for path in root.leftovers(location) if not root.is_locked(location) else ():
            if not _may_be_continued(path):
                yield _Garbage(location, path, Reason.ABANDONED, _size_bytes(path))


def _may_be_continued(path: Path) -> bool:
    """Tell whether the next build may go on from an interrupted one, which may have taken days."""
    if not path.name.startswith(RESUMABLE):
        return False
    latest = max((file.lstat().st_mtime for file in [path, *path.iterdir()]), default=0.0)
    return time.time() - latest < _CONTINUED_WITHIN_S


def _pinned_digests(root: Root) -> set[str]:
    """Return the first 12 digits of every manifest digest that a package names, directly or through its inputs."""
    packages = root.path / PACKAGES
    manifests = {generation.name[-12:]: generation / MANIFEST for generation in generations(root.path)}
    # Of a published package without a manifest nobody knows what it pins.
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
    """Yield every ``manifest_sha256`` in a JSON file, at any depth: of inputs and of caches held by reference."""
    try:
        waiting: list[object] = [json.loads(path.read_bytes())]
    except (OSError, ValueError) as err:
        raise CorruptResourceError(
            str(path),
            f"cannot be read ({err}), so what it pins is unknown and nothing was removed",
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
        # A build that has begun since may be sweeping it.
        with suppress(FileNotFoundError):
            total += item.lstat().st_size
    return total
