"""Files and directories that appear whole or not at all, also after kill -9 or a power cut.

A published directory is a *generation*: ``<parent>/.gen/<name>.<digest12>``, reached through the relative symlink
``<parent>/<name>``. POSIX renames a file over a file atomically, but never a directory over a full directory; replacing
a symlink is what makes the switch of a whole directory one step.
"""

from __future__ import annotations

import errno
import filecmp
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

from genolewm_assets.errors import CorruptResourceError, MissingResourceError

GENERATIONS = ".gen"
#: What a link is called before it takes the place of the former one.
LINK_SUFFIX = ".link"
_GENERATION_NAME = re.compile(r"(?P<name>.+)\.(?P<digest12>[0-9a-f]{12})", re.DOTALL)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Give an OSError the name of the file: calls by descriptor, such as write and fsync, do not know it."""
    try:
        yield
    except OSError as err:
        if err.filename is None:
            err.filename = str(path)
        raise


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file so that readers see the old bytes or the new ones, also after a power cut.

    Raises
    ------
    OSError
        If the file system refuses; the old file is untouched and nothing else is left behind.
    """
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with naming(path), scratch.open("xb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(scratch, path)  # noqa: PTH105 - the crash tests kill at the functions of `os`
    except BaseException:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Force a directory's entries to disk, so that renames in it outlive a power cut."""
    try:
        _sync(directory, os.O_DIRECTORY)
    except OSError as err:
        # Some network file systems have no such call for directories and write entries through at once.
        if err.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise


def sync_tree(directory: Path) -> None:
    """Force every file and directory below ``directory``, and itself, to disk."""
    for folder, _, names in os.walk(directory, topdown=False):
        for name in names:
            # Links have nothing of their own to sync, and opening a FIFO would block for ever.
            if stat.S_ISREG((Path(folder) / name).lstat().st_mode):
                _sync(Path(folder) / name)
        sync_directory(Path(folder))


def _sync(path: Path, flags: int = 0) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | flags)
    try:
        with naming(path):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directories(directory: Path) -> None:
    """Create a directory and its missing parents, each entry forced to disk."""
    chain = (directory, *directory.parents)
    n_missing = next(n for n, path in enumerate(chain) if path.is_dir())
    # The first one there may have been made by a process that was killed before it synced the entry.
    for path in reversed(chain[: n_missing + 1]):
        path.mkdir(exist_ok=True)
        # A parent that may be entered but not listed cannot be opened, so not synced either.
        with suppress(PermissionError):
            sync_directory(path.parent)


def remove_tree(path: Path) -> None:
    """Remove whatever stands at ``path``: a file, a link (never what it points to) or a directory; nothing is fine."""
    if path.is_dir() and not path.is_symlink():
        try:
            shutil.rmtree(path)
        except OSError as err:
            # It removes entries by their names alone, relative to open folders.
            err.filename = str(path)
            raise
    else:
        path.unlink(missing_ok=True)


def split_generation_name(directory: str) -> tuple[str, str] | None:
    """Split ``chr21.0123456789ab`` into link name and digest; None for any other name."""
    match = _GENERATION_NAME.fullmatch(directory)
    return (match["name"], match["digest12"]) if match else None


def link_target(path: Path) -> str | None:
    """Return what a symlink says, None for anything else or nothing; one system call, so no race in between."""
    try:
        return os.readlink(path)  # noqa: PTH115 - a Path would normalise the text
    except OSError:
        return None


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
