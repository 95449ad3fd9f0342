"""List the published links, generations and other links of a root, for verification and garbage collection."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

from genolewm_assets.store.artefacts.manifest import MANIFEST, SCHEMA
from genolewm_assets.store.artefacts.root import RESERVED
from genolewm_assets.store.files import GENERATIONS, LINK_SUFFIX, derived_files, generations_in, walk

# A temporary file exists only between writing and renaming; at this age, in seconds, its writer is dead.
_UNFINISHED_AFTER_S = 3600.0
_SCRATCH = re.compile(r"\..+\.[0-9a-f]{8}\.tmp", re.DOTALL)


def _folders(base: Path) -> Iterator[Path]:
    """Yield ``base`` and the folders below it, sorted, except ``.gen`` folders and the reserved ones of a root."""
    for folder, names, _ in walk(base):
        names[:] = sorted(n for n in names if n != GENERATIONS and not (folder == base and n in RESERVED))
        yield folder


def links(base: Path) -> Iterator[Path]:
    """Yield every symlink below ``base`` outside generations, whether or not the store made it."""
    for folder in _folders(base):
        yield from sorted(path for path in folder.iterdir() if path.is_symlink())


def generations(base: Path) -> Iterator[Path]:
    """Yield every generation below ``base``, linked or not."""
    for folder in _folders(base):
        yield from generations_in(folder)


def derived(base: Path) -> Iterator[Path]:
    """Yield every file below ``base`` that was made from a generation and lies beside it."""
    for folder in _folders(base):
        yield from derived_files(folder)


def unfinished_files(base: Path) -> Iterator[Path]:
    """Yield temporary files and links, older than an hour, that a killed process did not rename."""
    for folder in _folders(base):
        inside = folder / GENERATIONS
        found = [path for path in folder.iterdir() if _SCRATCH.fullmatch(path.name)]
        own = inside.iterdir() if inside.is_dir() else ()
        found += [path for path in own if path.suffix == LINK_SUFFIX or _SCRATCH.fullmatch(path.name)]
        yield from sorted(path for path in found if _is_old(path))


def _is_old(path: Path) -> bool:
    try:
        return time.time() - path.lstat().st_mtime > _UNFINISHED_AFTER_S
    except FileNotFoundError:
        return False


def plain_directories(base: Path) -> Iterator[Path]:
    """Yield folders outside ``.gen`` that contain a manifest: published directories copied without their link."""
    for folder in _folders(base):
        manifest = folder / MANIFEST
        if manifest.is_file() and not manifest.is_symlink() and f'"{SCHEMA}"'.encode() in manifest.read_bytes():
            yield folder
