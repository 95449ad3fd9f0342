"""Symlinks that show the files of a published directory one level up.

``clinvar/<release>/chr21.parquet`` is a link through ``shard`` beside it: switching ``shard`` switches every file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.store.files import is_published_link, link_target, replace_link, sync_directory


def check_surface(link: Path, directory: Path) -> None:
    """Raise :class:`CorruptResourceError` if a file, folder or published link is in the place of a surface link.

    Any other link is replaced.
    """
    for path in directory.iterdir():
        name = link.parent / path.name
        if name == link or is_published_link(name) or (os.path.lexists(name) and not name.is_symlink()):
            raise CorruptResourceError(
                str(name),
                f"is in the place of a file of {link.name!r}",
                remedy="Move it out of the root and build again",
            )


def lay_surface(link: Path) -> None:
    """Update the surface of a published link: add missing links, correct wrong ones, remove dangling ones.

    The caller holds the lock of the location.
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
    """Yield the paths, sorted, whose surface link is missing or leads elsewhere."""
    beside = (link.parent / path.name for path in sorted(link.iterdir()))
    return (path for path in beside if shown_through(path) != link)


def shown_through(path: Path) -> Path | None:
    """Return the published link that a surface link leads through; None if ``path`` is no surface link."""
    through, _, name = (link_target(path) or "").partition("/")
    link = path.parent / through
    return link if name == path.name and is_published_link(link) else None
