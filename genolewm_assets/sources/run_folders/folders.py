"""Folders of runs, their partition keys, their files, and the rule by which one is complete."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from genolewm_assets.errors import AbifError, InputError, MissingResourceError, ResourceError
from genolewm_assets.forensic import read_hid
from genolewm_assets.forensic.dataset import INSTRUMENT_SUFFIXES

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")
_UNFIT = re.compile(r"[^A-Za-z0-9_-]+")
_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class FoundFile:
    """One file of a run folder."""

    name: str
    path: Path
    size_bytes: int
    modified_ns: int


@dataclass(frozen=True, slots=True)
class Settling:
    """A folder with a file named ``marker`` is complete, and one in which nothing changed for ``settle_s`` seconds."""

    marker: str
    settle_s: float


def list_run_folders(runs: Path) -> dict[str, Path]:
    """Return the run folders in a folder by partition key, in order of the keys; hidden folders are none.

    A name that may be a key is the key. Of another, every stretch of other characters becomes ``-``, and a digest of
    the name follows, so that no two folders have one key.

    Raises
    ------
    MissingResourceError, ResourceError
        If there is no such folder, or it cannot be read.
    """
    try:
        folders = [each for each in runs.iterdir() if each.is_dir() and not each.name.startswith(".")]
    except (FileNotFoundError, NotADirectoryError) as err:
        remedy = "Make the folder, or correct forensic.runs in the catalogue"
        raise MissingResourceError(str(runs), "is no folder", expected="the folder of the runs", remedy=remedy) from err
    except OSError as err:
        raise ResourceError(str(runs), f"cannot be read ({err.strerror})", remedy="Make it readable") from err
    return dict(sorted((_key_of(each.name), each) for each in folders))


def run_folder(runs: Path, key: str) -> Path:
    """Return the run folder of a partition key; raise as :func:`list_run_folders`, and if there is none."""
    folders = list_run_folders(runs)
    if key not in folders:
        raise MissingResourceError(
            str(runs),
            "has no folder of this run",
            expected=repr(key),
            got=f"{len(folders)} other folders",
            remedy="Put the folder back, or delete the partition",
        )
    return folders[key]


def list_run_files(folder: Path) -> tuple[FoundFile, ...]:
    """Return every file of a run folder, those of folders in it too, in order of their names.

    Raises
    ------
    InputError
        If something in it is neither a file nor a folder, or cannot be read.
    """
    found = []
    for parent, _, names in os.walk(folder, onerror=_refuse):
        for name in names:
            path = Path(parent, name)
            try:
                status = path.stat()
            except FileNotFoundError as err:
                raise InputError(str(path), "disappeared, or is a broken link", remedy="Wait for the upload") from err
            if not path.is_file():
                raise InputError(str(path), "is no regular file", remedy="Take it out of the run folder")
            relative = path.relative_to(folder).as_posix()
            found.append(FoundFile(relative, path, status.st_size, status.st_mtime_ns))
    return tuple(sorted(found, key=lambda file: file.name))


def why_unfinished(folder: Path, files: Sequence[FoundFile], settling: Settling, now_s: float) -> str | None:
    """Return why a folder with these files of :func:`list_run_files` is not complete at ``now_s`` since 1970, or None.

    Notes
    -----
    An instrument file is whole if its directory, and every value that the directory names, lies inside the file.
    """
    if any(file.name == settling.marker for file in files):
        return None
    if not any(file.path.suffix.lower() in INSTRUMENT_SUFFIXES for file in files):
        return "has no instrument file yet"
    latest_ns = max([folder.stat().st_mtime_ns, *(file.modified_ns for file in files)])
    quiet_s = now_s - latest_ns / _NS
    if quiet_s < settling.settle_s:
        return f"changed {max(quiet_s, 0):.0f} s ago: complete after {settling.settle_s:.0f} s without a change"
    for file in files:
        if file.path.suffix.lower() in INSTRUMENT_SUFFIXES:
            try:
                read_hid(file.path)
            except AbifError as err:
                return f"{file.name} is not whole ({err.problem})"
    return None


def _refuse(err: OSError) -> None:
    raise InputError(str(err.filename), f"cannot be read ({err.strerror})", remedy="Make it readable") from err


def _key_of(name: str) -> str:
    if _KEY.fullmatch(name):
        return name
    plain = _UNFIT.sub("-", name).strip("-_") or "run"
    return f"{plain}.{hashlib.sha256(os.fsencode(name)).hexdigest()[:8]}"
