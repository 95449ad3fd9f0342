"""Files derived from a published generation, which it would be costly to make in each build that needs them.

::

    <root>/work/derived/<first 12 digits of the manifest's SHA-256>/<name>          the file
    <root>/work/derived/<first 12 digits of the manifest's SHA-256>/<name>.sha256   its recorded digest

No manifest covers them. A file that is missing, or does not have its recorded digest, is made again.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path

from genolewm_assets.store.artefacts.root import WORK
from genolewm_assets.store.files import make_directories, measure_file, sync_directory, walk, write_atomic

#: Seconds after its last use for which a derived file is kept.
_UNUSED_FOR_S = 30 * 24 * 3600.0
#: Folder of a root that holds the derived files of all generations.
DERIVED = f"{WORK}/derived"


class DerivedFiles:
    """Derived files of one generation, in one folder.

    Parameters
    ----------
    folder
        Created when the first file is made. A name must state all that its content depends on besides the generation.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: set[str] = set()

    def get(self, name: str, make: Callable[[Path], None]) -> Path:
        """Return the path of a derived file, whole and as recorded.

        Parameters
        ----------
        make
            Writes the file to the path that it is given. It must write equal bytes each time: two builds may make one
            file at the same time, and the later one replaces it.

        Raises
        ------
        OSError
            If the file cannot be read or written.
        """
        path = self.folder / name
        if name not in self._known:
            if not _is_as_recorded(path):
                self._make(path, make)
            self._known.add(name)
        # Garbage collection removes what no build has used for a month.
        with suppress(OSError):
            os.utime(path)
        return path

    def _make(self, path: Path, make: Callable[[Path], None]) -> None:
        make_directories(path.parent)
        scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
        try:
            make(scratch)
            with scratch.open("rb") as made:
                os.fsync(made.fileno())
            digest = measure_file(scratch).sha256
            # Without its record, a file that is replaced half-way is made again.
            _record_of(path).unlink(missing_ok=True)
            os.replace(scratch, path)  # noqa: PTH105 - the crash tests kill at the functions of `os`
        finally:
            scratch.unlink(missing_ok=True)
        sync_directory(path.parent)
        write_atomic(_record_of(path), digest.encode())


def unused_files(base: Path, digests: Collection[str]) -> Iterator[Path]:
    """Yield the derived files below ``base`` of generations of other digests, and those unused for a month."""
    for folder, _, names in walk(base) if base.is_dir() else ():
        is_gone = folder != base and folder.relative_to(base).parts[0] not in digests
        for path in (folder / name for name in sorted(names) if not name.startswith(".")):
            used = path.with_name(path.name.removesuffix(".sha256"))
            # Another collection may remove either meanwhile.
            with suppress(FileNotFoundError):
                latest = (used if used.exists() else path).lstat().st_mtime
                if is_gone or time.time() - latest > _UNUSED_FOR_S:
                    yield path


def _record_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _is_as_recorded(path: Path) -> bool:
    try:
        return _record_of(path).read_text(encoding="ascii") == measure_file(path).sha256
    except (FileNotFoundError, UnicodeDecodeError):
        return False
