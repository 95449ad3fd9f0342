"""Links beside a published link that show its files one level up.

``clinvar/<release>/`` holds the links ``shard``, ``vcf`` and ``changes``; people look for
``clinvar/<release>/chr21.parquet``. Such a link leads through ``shard``, so replacing that one switches them all.
"""

from __future__ import annotations

import os
from pathlib import Path

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.store.atomic import link_target, sync_directory


def check_surface(link: Path, work_dir: Path) -> None:
    """Raise :class:`CorruptResourceError` if something else occupies a name that the surface needs."""
    for path in work_dir.iterdir():
        name = link.parent / path.name
        if os.path.lexists(name) and not _is_surface_link(link, name):
            raise CorruptResourceError(
                str(name), f"is in the way of a file of {link.name!r}", remedy="Move it out of the root and build again"
            )


def lay_surface(link: Path) -> None:
    """Add the links that are missing, remove those whose file is gone; the caller holds the lock of the location."""
    wanted = {path.name for path in link.iterdir()}
    present = {path.name for path in link.parent.iterdir() if _is_surface_link(link, path)}
    for name in sorted(wanted - present):
        os.symlink(f"{link.name}/{name}", link.parent / name)  # noqa: PTH211 - one style with atomic.py
    for name in sorted(present - wanted):
        (link.parent / name).unlink()
    if wanted != present:
        sync_directory(link.parent)


def has_surface(link: Path) -> bool:
    """Tell whether every file of the published directory shows beside the link."""
    return all(_is_surface_link(link, link.parent / path.name) for path in link.iterdir())


def _is_surface_link(link: Path, path: Path) -> bool:
    return link_target(path) == f"{link.name}/{path.name}"
