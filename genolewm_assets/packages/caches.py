"""Caches of encoder states that a package refers to: find them in a root and compare them with the recorded digests."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator
from pathlib import Path

from genolewm_assets.errors import CorruptResourceError, MissingResourceError, RootError
from genolewm_assets.packages.damage import Hashed, bytes_to_hash, find_cache_damage, find_size_damage
from genolewm_assets.packages.info import PackageInfo
from genolewm_assets.packages.schema import CacheRef
from genolewm_assets.progress import ByteCount
from genolewm_assets.store.artefacts import (
    MANIFEST,
    MISSING_FILE,
    ROOT_FILE,
    Damage,
    Finding,
    FindingKind,
    Root,
    check_file_path,
    read_manifest,
)
from genolewm_assets.store.files import GENERATIONS

_REMEDY = "Name the root that the package was built in (cache_root), or build the cache again"


def check_root(root: Path, info: PackageInfo) -> None:
    """Raise :class:`RootError` if a root states another genome than the package, or its record cannot be read."""
    path = root / ROOT_FILE
    if not path.is_file():
        return
    try:
        found = Root(root).owner()["genome_digest"]
    except KeyError as err:
        raise RootError(str(path), "names no genome", remedy="Restore the file or name another root") from err
    if found != info.genome_digest:
        raise RootError(
            str(root),
            "the root belongs to another genome than the package",
            expected=repr(info.genome_digest),
            got=reprlib.repr(found),
            remedy=f"Restore {ROOT_FILE}, or name the root that the package was built in (cache_root)",
        )


def find_cache(root: Path, ref: CacheRef) -> Path:
    """Return the folder of a cache of the recorded manifest and sizes: its own generation, else the current one."""
    where = f"{root}/{ref.path} (cache of {ref.source})"
    directory = _directory(root, ref)
    if directory is None:
        raise MissingResourceError(where, "the cache that the package refers to is missing", remedy=_REMEDY)
    try:
        manifest = read_manifest(directory)
    except (CorruptResourceError, MissingResourceError) as err:
        raise type(err)(
            where, f"{err.where}: {err.problem}", expected=err.expected, got=err.got, remedy=_REMEDY
        ) from err
    if manifest.sha256 != ref.manifest_sha256:
        raise CorruptResourceError(
            where,
            "a different cache is stored at the path that the package refers to",
            expected=f"manifest {ref.manifest_sha256}",
            got=f"manifest {manifest.sha256}",
            remedy=_REMEDY,
        )
    for damage in find_size_damage(directory, manifest.files):
        raise CorruptResourceError(
            f"{where}/{damage.file}", damage.problem, expected=damage.expected, got=damage.got, remedy=_REMEDY
        )
    return directory


def cache_exists(root: Path, ref: CacheRef) -> bool:
    """Tell whether a root has a cache at the path that a package refers to; its content is not compared."""
    return _directory(root, ref) is not None


def verify_caches(root: Path | None, info: PackageInfo, count: ByteCount, hashed: Hashed = "all") -> Iterator[Finding]:
    """Compare the files of every cache that a package refers to with its manifest, each folder once."""
    refs = sorted({ref.path: ref for ref in info.caches}.values(), key=lambda ref: ref.path)
    found = [(ref, None if root is None else _directory(root, ref)) for ref in refs]
    count.expect(sum(bytes_to_hash(directory, hashed) for _, directory in found if directory is not None))
    for ref, directory in found:
        if directory is None:
            yield Finding(FindingKind.MISSING, ref.path, None, f"the cache of {ref.source} is missing")
            continue
        for damage in find_cache_damage(directory, ref, count, hashed):
            yield as_finding(ref.path, damage)


def as_finding(location: str, damage: Damage) -> Finding:
    """Convert a damage into a finding about the artefact at ``location``."""
    kind = FindingKind.MISSING if damage.problem == MISSING_FILE else FindingKind.CORRUPT
    return Finding(kind, location, damage.file, damage.problem, damage.expected, damage.got)


def _directory(root: Path, ref: CacheRef) -> Path | None:
    check_file_path(ref.path, f"cache of {ref.source}")
    link = root / ref.path
    pinned = link.parent / GENERATIONS / f"{link.name}.{ref.manifest_sha256[:12]}"
    return next((path for path in (pinned, link) if (path / MANIFEST).is_file()), None)
