"""Links beside a published link that show its files one level up.

``clinvar/<release>/`` holds the links ``shard``, ``vcf`` and ``changes``; people look for
``clinvar/<release>/chr21.parquet``. Such a link leads through ``shard``, so replacing that one switches them all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.store.files import is_published_link, link_target, replace_link, sync_directory


def check_surface(link: Path, directory: Path) -> None:
    """Raise :class:`CorruptResourceError` if a name that the surface of a directory needs is not free.

    A plain file or folder, or what another artefact has published, is not replaced; any other link is.
    """
    for path in directory.iterdir():
        name = link.parent / path.name
        if name == link or is_published_link(name) or (os.path.lexists(name) and not name.is_symlink()):
            raise CorruptResourceError(
                str(name), f"is in the way of a file of {link.name!r}", remedy="Move it out of the root and build again"
            )


def lay_surface(link: Path) -> None:
    """Add the links that are missing, right those that lead elsewhere, remove those whose file is gone.

    The caller holds the lock of the location.

    Raises
    ------
    CorruptResourceError
        As :func:`check_surface`.
    """
    check_surface(link, link)
    hidden = list(hidden_files(link))
    gone = [path for path in link.parent.iterdir() if shown_through(path) == link and not path.exists()]
    for name in hidden:
        replace_link(name, f"{link.name}/{name.name}")
    for name in gone:
        name.unlink()
    if hidden or gone:
        sync_directory(link.parent)


def hidden_files(link: Path) -> Iterator[Path]:
    """Yield the paths beside the link where a file of the published directory should show and does not, sorted."""
    beside = (link.parent / path.name for path in sorted(link.iterdir()))
    return (path for path in beside if shown_through(path) != link)


def shown_through(path: Path) -> Path | None:
    """Return the published link through which a link of a surface leads, None for anything else."""
    through, _, name = (link_target(path) or "").partition("/")
    link = path.parent / through
    return link if name == path.name and is_published_link(link) else None
