"""What lies in a root: published links, generations, and other links; for those that look at all of it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

from genolewm_assets.store.atomic import GENERATIONS, LINK_SUFFIX, link_target, split_generation_name
from genolewm_assets.store.manifest import MANIFEST, SCHEMA
from genolewm_assets.store.root import RESERVED
from genolewm_assets.store.walk import walk

# Such a file lives for the moment between writing and renaming; one of that age has no writer any more.
_UNFINISHED_AFTER_S = 3600.0
_SCRATCH = re.compile(r"\..+\.[0-9a-f]{8}\.tmp", re.DOTALL)


def _folders(base: Path) -> Iterator[Path]:
    """Yield the plain folders below ``base``, sorted; not the generations, nor what the store keeps for itself."""
    for folder, names, _ in walk(base):
        names[:] = sorted(n for n in names if n != GENERATIONS and not (folder == base and n in RESERVED))
        yield folder


def links(base: Path) -> Iterator[Path]:
    """Yield every symlink below ``base``, published or not, that is not inside a generation."""
    for folder in _folders(base):
        yield from sorted(path for path in folder.iterdir() if path.is_symlink())


def is_published_link(link: Path) -> bool:
    """Tell whether a symlink has, or had, a generation as its target."""
    return (link_target(link) or "").startswith(f"{GENERATIONS}/")


def generations(base: Path) -> Iterator[Path]:
    """Yield every generation below ``base``, linked or not."""
    for folder in _folders(base):
        yield from generations_in(folder)


def generations_in(folder: Path) -> Iterator[Path]:
    """Yield every generation of the links in one folder, linked or not, sorted."""
    inside = folder / GENERATIONS
    for path in sorted(inside.iterdir()) if inside.is_dir() and not inside.is_symlink() else ():
        if split_generation_name(path.name) and path.is_dir() and not path.is_symlink():
            yield path


def link_of_generation(generation: Path) -> Path:
    """Return the link that a generation was made for."""
    parts = split_generation_name(generation.name)
    return generation.parent.parent / (parts[0] if parts else generation.name)


def is_linked(generation: Path) -> bool:
    """Tell whether readers reach a generation."""
    return link_target(link_of_generation(generation)) == f"{GENERATIONS}/{generation.name}"


def unfinished_files(base: Path) -> Iterator[Path]:
    """Yield what a killed process left of single files and links it was about to rename."""
    for folder in _folders(base):
        inside = folder / GENERATIONS
        found = [path for path in folder.iterdir() if _SCRATCH.fullmatch(path.name)]
        found += [path for path in inside.iterdir() if path.suffix == LINK_SUFFIX] if inside.is_dir() else []
        yield from sorted(path for path in found if _is_old(path))


def _is_old(path: Path) -> bool:
    try:
        return time.time() - path.lstat().st_mtime > _UNFINISHED_AFTER_S
    except FileNotFoundError:
        return False


def plain_directories(base: Path) -> Iterator[Path]:
    """Yield folders that hold a manifest but are no generation: copies that lost their link."""
    for folder in _folders(base):
        manifest = folder / MANIFEST
        if manifest.is_file() and not manifest.is_symlink() and f'"{SCHEMA}"'.encode() in manifest.read_bytes():
            yield folder
