"""Publish directories as generations, and switch the symlinks that point to them.

A *generation* is ``<parent>/.gen/<name>.<digest12>``; the relative symlink ``<parent>/<name>`` points to the current
one. POSIX cannot rename a directory over one that is not empty; replacing the symlink is one atomic step. A file
``<name>.<digest12>.<suffix>`` beside a generation is made from it, and can be made again.
"""

from __future__ import annotations

import filecmp
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from genolewm_assets.errors import CorruptResourceError, MissingResourceError
from genolewm_assets.store.files.atomic import link_target, make_directories, remove_tree, sync_directory, sync_tree

GENERATIONS = ".gen"
#: Suffix of the temporary name under which a new link is created before it replaces the old one.
LINK_SUFFIX = ".link"
_GENERATION_NAME = re.compile(r"(?P<name>.+)\.(?P<digest12>[0-9a-f]{12})", re.DOTALL)


def split_generation_name(directory: str) -> tuple[str, str] | None:
    """Split ``chr21.0123456789ab`` into link name and digest; None for any other name."""
    match = _GENERATION_NAME.fullmatch(directory)
    return (match["name"], match["digest12"]) if match else None


def check_publishable(link: Path) -> None:
    """Raise :class:`CorruptResourceError` if a file or folder occupies the path of the link or of its ``.gen``."""
    remedy = "Move it out of the root and build again"
    if not link.is_symlink() and link.exists():
        raise CorruptResourceError(
            str(link), "a plain file or directory is in the place of the published link", remedy=remedy
        )
    generations = link.parent / GENERATIONS
    if generations.is_symlink() or (generations.exists() and not generations.is_dir()):
        raise CorruptResourceError(
            str(generations), "a link or file is in the place of the folder of generations", remedy=remedy
        )


def publish_generation(
    work_dir: Path, link: Path, digest12: str, *, fenced: Callable[[], AbstractContextManager[None]] = nullcontext
) -> Path:
    """Turn a finished work directory into a generation, point ``link`` at it, and return its path.

    Readers that resolve ``link`` get the former generation or this one. If a generation of this digest exists, it is
    kept; those of its files that differ from the work directory are replaced, each atomically.

    Parameters
    ----------
    work_dir
        A complete directory on the file system of ``link``; it no longer exists afterwards.
    link
        Path of the published link. The caller holds the lock of this location.
    digest12
        First 12 hex digits of the digest of the content, usually the SHA-256 of ``manifest.json``.
    fenced
        ``fenced`` of the lease of this location. It is entered before anything is moved, and raises if the lock was
        lost.

    Raises
    ------
    CorruptResourceError
        If a file or folder occupies the path of the link or of its ``.gen``, or ``digest12`` is malformed.
    """
    generation = generation_path(link, digest12)
    generations = generation.parent
    if split_generation_name(generation.name) is None:
        raise CorruptResourceError(
            str(link), "cannot be published", expected="12 hex digits of a digest", got=repr(digest12)
        )
    check_publishable(link)
    sync_tree(work_dir)
    with fenced():
        make_directories(generations)
        if generation.is_symlink() or not generation.is_dir():
            remove_tree(generation)
            os.rename(work_dir, generation)  # noqa: PTH104
        else:
            _heal(work_dir, generation)
        sync_directory(generations)
        sync_directory(work_dir.parent)
        switch_link(link, generation)
    return generation


def generation_path(link: Path, digest12: str) -> Path:
    """Return the path of the generation of ``link`` with a digest, whether or not it exists."""
    return link.parent / GENERATIONS / f"{link.name}.{digest12}"


def generations_of(link: Path) -> list[Path]:
    """Return every existing generation of a link, sorted by path, including those it does not point to."""
    found = (link.parent / GENERATIONS).glob("*")
    own = (path for path in found if (split_generation_name(path.name) or ("", ""))[0] == link.name)
    return sorted(path for path in own if path.is_dir() and not path.is_symlink())


def _heal(work_dir: Path, generation: Path) -> None:
    """Make a generation equal to ``work_dir``: replace files that differ, remove files that ``work_dir`` lacks."""
    for folder, _, names in os.walk(work_dir):
        target = generation / Path(folder).relative_to(work_dir)
        if target.is_symlink() or not target.is_dir():
            remove_tree(target)
            target.mkdir()
        for stray in set(os.listdir(target)) - set(os.listdir(folder)):  # noqa: PTH208
            remove_tree(target / stray)
        for name in names:
            fresh, published = Path(folder) / name, target / name
            if not _same_file(fresh, published):
                if published.is_dir() and not published.is_symlink():
                    remove_tree(published)
                os.replace(fresh, published)  # noqa: PTH105
    remove_tree(work_dir)
    sync_tree(generation)


def _same_file(fresh: Path, published: Path) -> bool:
    try:
        regular = stat.S_ISREG(published.lstat().st_mode)
        return regular and filecmp.cmp(fresh, published, shallow=False)
    except OSError:
        return False


def switch_link(link: Path, generation: Path) -> None:
    """Point ``link`` at ``generation`` atomically, and sync the folder of ``link``."""
    target = f"{GENERATIONS}/{generation.name}"
    if link_target(link) != target:
        replace_link(link, target)
    sync_directory(link.parent)


def replace_link(link: Path, target: str) -> None:
    """Create ``link`` with ``target``, or replace it atomically; the caller syncs the folder of ``link``."""
    # The temporary name is fixed, so the next build overwrites the link of a killed one.
    scratch = link.parent / GENERATIONS / f"{link.name}{LINK_SUFFIX}"
    scratch.unlink(missing_ok=True)
    os.symlink(target, scratch)  # noqa: PTH211
    os.replace(scratch, link)  # noqa: PTH105


def resolve_generation(link: Path) -> Path:
    """Return the generation that ``link`` points to now; readers call this once and keep the result.

    Raises
    ------
    MissingResourceError
        If ``link`` does not exist, or its generation does not.
    CorruptResourceError
        If ``link`` is not a symlink, or its target is not ``.gen/<name>.<digest12>`` with the name of ``link``.
    """
    try:
        target = os.readlink(link)  # noqa: PTH115
    except FileNotFoundError as err:
        raise MissingResourceError(str(link), "nothing is published here") from err
    except OSError as err:
        raise CorruptResourceError(
            str(link), "is not a published link", expected=f"a symlink into {GENERATIONS!r}", got=err.strerror
        ) from err
    folder, _, directory = target.partition("/")
    parts = split_generation_name(directory)
    if folder != GENERATIONS or "/" in directory or parts is None or parts[0] != link.name:
        raise CorruptResourceError(
            str(link), "is not a published link", expected=f"a target {GENERATIONS}/{link.name}.<digest>", got=target
        )
    generations = link.parent / GENERATIONS
    generation = generations / directory
    if generations.is_symlink() or generation.is_symlink() or not generation.is_dir():
        raise MissingResourceError(str(link), f"the published directory {target!r} is gone")
    return generation


def is_published_link(link: Path) -> bool:
    """Return whether a path is a symlink into ``.gen``, even if its target no longer exists."""
    return (link_target(link) or "").startswith(f"{GENERATIONS}/")


def generations_in(folder: Path) -> Iterator[Path]:
    """Yield every generation in the ``.gen`` of one folder, sorted by path, linked or not."""
    inside = folder / GENERATIONS
    for path in sorted(inside.iterdir()) if inside.is_dir() and not inside.is_symlink() else ():
        if split_generation_name(path.name) and path.is_dir() and not path.is_symlink():
            yield path


def derived_files(folder: Path) -> Iterator[Path]:
    """Yield the files ``<generation>.<suffix>`` in the ``.gen`` of one folder, made from a generation, sorted."""
    inside = folder / GENERATIONS
    for path in sorted(inside.iterdir()) if inside.is_dir() and not inside.is_symlink() else ():
        if path.suffix and split_generation_name(path.stem) and path.is_file() and not path.is_symlink():
            yield path


def link_of_generation(generation: Path) -> Path:
    """Return the path of the link that a generation was made for."""
    parts = split_generation_name(generation.name)
    return generation.parent.parent / (parts[0] if parts else generation.name)


def is_linked(generation: Path) -> bool:
    """Return whether the link of a generation points to it."""
    return link_target(link_of_generation(generation)) == f"{GENERATIONS}/{generation.name}"
