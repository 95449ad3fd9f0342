"""Published directories: generations, and the links that stand for them.

A published directory is a *generation*: ``<parent>/.gen/<name>.<digest12>``, reached through the relative symlink
``<parent>/<name>``. POSIX renames a file over a file atomically, but never a directory over a full directory; replacing
a symlink is what makes the switch of a whole directory one step.
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
#: What a link is called before it takes the place of the former one.
LINK_SUFFIX = ".link"
_GENERATION_NAME = re.compile(r"(?P<name>.+)\.(?P<digest12>[0-9a-f]{12})", re.DOTALL)


def split_generation_name(directory: str) -> tuple[str, str] | None:
    """Split ``chr21.0123456789ab`` into link name and digest; None for any other name."""
    match = _GENERATION_NAME.fullmatch(directory)
    return (match["name"], match["digest12"]) if match else None


def check_publishable(link: Path) -> None:
    """Raise :class:`CorruptResourceError` if something else stands where the link or its generations belong."""
    remedy = "Move it out of the root and build again"
    if not link.is_symlink() and link.exists():
        raise CorruptResourceError(
            str(link), "a plain file or directory stands where a published link belongs", remedy=remedy
        )
    generations = link.parent / GENERATIONS
    if generations.is_symlink() or (generations.exists() and not generations.is_dir()):
        raise CorruptResourceError(
            str(generations), "a link or file stands where the folder of published directories belongs", remedy=remedy
        )


def publish_generation(
    work_dir: Path,
    link: Path,
    digest12: str,
    *,
    fenced: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Path:
    """Make a finished work directory the one that ``link`` stands for.

    Readers that resolve ``link`` get the former generation or this one. Publishing a digest that is published already
    changes nothing; files of it that were damaged since are replaced one by one, each in a single step.

    Parameters
    ----------
    work_dir
        A complete directory on the file system of ``link``; it is gone afterwards.
    link
        Where readers look. The caller holds the lock of this location.
    digest12
        First 12 hex digits of the digest of what the directory holds.
    fenced
        ``fenced`` of the lease of this location: entered before anything is moved, it raises if the lock was lost.

    Returns
    -------
    Path
        The generation.

    Raises
    ------
    CorruptResourceError
        If something else stands where the link or its generations belong.
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
    """Return where the generation of a digest lies, or would, that ``link`` stands for."""
    return link.parent / GENERATIONS / f"{link.name}.{digest12}"


def generations_of(link: Path) -> list[Path]:
    """Return every generation of a link that lies on disk, sorted, whether or not the link stands for it."""
    found = (link.parent / GENERATIONS).glob("*")
    own = (path for path in found if (split_generation_name(path.name) or ("", ""))[0] == link.name)
    return sorted(path for path in own if path.is_dir() and not path.is_symlink())


def _heal(work_dir: Path, generation: Path) -> None:
    """Move the files that differ from ``work_dir`` into a generation of the same digest; drop what it lacks."""
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
    """Point ``link`` at ``generation`` in one step."""
    target = f"{GENERATIONS}/{generation.name}"
    if link_target(link) != target:
        replace_link(link, target)
    sync_directory(link.parent)


def replace_link(link: Path, target: str) -> None:
    """Make ``link`` say ``target``, in one step also where it says something else; the caller syncs its folder."""
    # One name per link: a link that a killed build left behind is overwritten by the next build of the location.
    scratch = link.parent / GENERATIONS / f"{link.name}{LINK_SUFFIX}"
    scratch.unlink(missing_ok=True)
    os.symlink(target, scratch)  # noqa: PTH211
    os.replace(scratch, link)  # noqa: PTH105


def resolve_generation(link: Path) -> Path:
    """Return the generation that ``link`` stands for now; readers call this once and keep the result.

    Raises
    ------
    MissingResourceError
        If nothing is published there, or the generation is gone.
    CorruptResourceError
        If ``link`` is not the kind of link that :func:`publish_generation` makes.
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
    """Tell whether a symlink has, or had, a generation as its target."""
    return (link_target(link) or "").startswith(f"{GENERATIONS}/")


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
