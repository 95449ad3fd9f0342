"""What a root holds on disk: versions of artefacts by their manifests, other folders by their files, free space."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from genolewm_assets.errors import GenoLeWMError
from genolewm_assets.store.artefacts import ROOT_FILE, WORK, Manifest, generations, read_manifest
from genolewm_assets.store.files import is_linked

#: Folders of a root that hold no artefacts, and what they are called on the page.
_FOLDERS = {WORK: "work (downloads, indexes, unfinished)", "rejected": "rejected builds", "dagster": "history of runs"}


@dataclass(frozen=True, slots=True)
class Version:
    """One version of an artefact on disk."""

    manifest: Manifest
    #: When its manifest was written, in seconds since 1970.
    written: float
    #: Whether consumers open it; other versions were superseded.
    published: bool
    #: Sum of the sizes that the manifest states.
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Contents:
    """Versions of a root, and the problems of those that cannot be read."""

    versions: tuple[Version, ...] = ()
    unreadable: tuple[str, ...] = ()

    def published(self) -> set[tuple[str, str | None]]:
        """Return asset and partition of everything that is published."""
        return {(each.manifest.asset, each.manifest.partition) for each in self.versions if each.published}


@dataclass(frozen=True, slots=True)
class Size:
    """Bytes of one asset, or of a folder that holds no artefacts."""

    what: str
    partitions: int
    #: ``published_bytes``, ``superseded_bytes``: of the versions that consumers open, and of those that ``genolewm gc``
    #: may remove.
    published_bytes: int
    superseded_bytes: int
    #: Bytes that were written since the page before.
    grown_bytes: int

    @property
    def total_bytes(self) -> int:
        """Bytes on disk."""
        return self.published_bytes + self.superseded_bytes


@dataclass(frozen=True, slots=True)
class Disk:
    """Sizes of a root, largest first, and the space of its file system."""

    sizes: tuple[Size, ...]
    free_bytes: int
    total_bytes: int


@dataclass(slots=True)
class _Sum:
    partitions: set[str | None] = field(default_factory=set)
    published: int = 0
    superseded: int = 0
    grown: int = 0


def read_contents(root: Path) -> Contents:
    """Read the manifest of every version in a root; no other file is opened."""
    versions, problems = list[Version](), list[str]()
    for directory in generations(root):
        try:
            manifest = read_manifest(directory)
            written = (directory / "manifest.json").stat().st_mtime
        except (GenoLeWMError, OSError) as err:
            problems.append(str(err))
            continue
        size_bytes = sum(file.size_bytes for file in manifest.files)
        versions.append(Version(manifest, written, is_linked(directory), size_bytes))
    return Contents(tuple(versions), tuple(problems))


def measure_disk(root: Path, versions: Sequence[Version], since: float, *, pointers: Mapping[str, str]) -> Disk:
    """Return the sizes of a root."""
    sums: dict[str, _Sum] = {}
    for version in versions:
        entry = sums.setdefault(version.manifest.asset, _Sum())
        if version.published:
            entry.partitions.add(version.manifest.partition)
            entry.published += version.size_bytes
        else:
            entry.superseded += version.size_bytes
        entry.grown += version.size_bytes if version.written >= since else 0
    sizes = [Size(name, len(s.partitions), s.published, s.superseded, s.grown) for name, s in sums.items()]
    sizes += [each for each in (_folder(root / name, what, since) for name, what in _FOLDERS.items()) if each]
    for name, place in pointers.items():
        ((size, written),) = list(_files(root / place)) or [(0, 0.0)]
        sizes.append(Size(name, 1, size, 0, size if written >= since else 0))
    space = shutil.disk_usage(root)
    return Disk(tuple(sorted(sizes, key=lambda each: -each.total_bytes)), space.free, space.total)


def _folder(folder: Path, what: str, since: float) -> Size | None:
    files = list(_files(folder))
    grown = sum(size for size, written in files if written >= since)
    return Size(what, 0, sum(size for size, _ in files), 0, grown) if files else None


def _files(folder: Path) -> Iterator[tuple[int, float]]:
    """Yield size and time of a file, or of each below a folder; what vanishes or cannot be read is left out."""
    for parent, _, names in os.walk(folder) if folder.is_dir() else [(str(folder.parent), [], [folder.name])]:
        for name in names:
            with suppress(OSError):
                found = os.lstat(os.path.join(parent, name))  # noqa: PTH118 - thousands of files
                if stat.S_ISREG(found.st_mode):
                    yield found.st_size, found.st_mtime


def is_empty(root: Path) -> bool:
    """Tell whether nothing was ever built in a folder: it holds no more than Dagster's own folder."""
    return not (root / ROOT_FILE).exists() and {path.name for path in root.iterdir()} <= {"dagster"}
