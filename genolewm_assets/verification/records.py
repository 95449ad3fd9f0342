"""Records of a root that readers follow and no manifest lists, each opened as its readers open it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from genolewm_assets.errors import CorruptResourceError, GenoLeWMError, MissingResourceError, RootError
from genolewm_assets.holdouts import KEPT_FILE, read_kept
from genolewm_assets.packages import (
    CURRENT_FILE,
    LATEST_FILE,
    PACKAGES,
    current_folder,
    folder_of,
    open_package,
    read_latest,
    read_pin,
    read_pointer,
    remedy_of_latest,
)
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.sources.clinvar import LEDGER, check_ledger
from genolewm_assets.states import find_index_faults
from genolewm_assets.store.artefacts import ROOT_FILE, Finding, FindingKind, Root, verify_root
from genolewm_assets.store.files import is_published_link
from genolewm_assets.variants import is_release_key

#: Path of a record relative to the root, and why a reader refuses it.
_Refused: TypeAlias = Iterator[tuple[str, GenoLeWMError]]


@dataclass(frozen=True, slots=True)
class RootRecord:
    """A kind of record, whose path relative to the root fits ``pattern`` of ``Path.glob``."""

    pattern: str
    refused: Callable[[Path], _Refused]


def find_record_faults(root: Root) -> list[Finding]:
    """Open every record of a root as its readers do, and return a finding for each that a reader refuses.

    Read are a file of a few kilobytes each, and sizes of the package in use.
    """
    found: dict[str, GenoLeWMError] = {}
    for record in RECORDS:
        for location, err in record.refused(root.path):
            # Whatever is opened, it is the record of the root that is at fault, and told once.
            found.setdefault(ROOT_FILE if isinstance(err, RootError) else location, err)
    return [
        Finding.of_error(
            FindingKind.MISSING if isinstance(err, MissingResourceError) else FindingKind.CORRUPT, location, err
        )
        for location, err in found.items()
    ]


def _reading(path: str, read: Callable[[Path], object]) -> RootRecord:
    """Return the kind of a record that one function reads; it may be missing, or the function says why it may not."""

    def refused(root: Path) -> _Refused:
        try:
            read(root)
        except GenoLeWMError as err:
            yield path, err

    return RootRecord(path, refused)


def _open_current(root: Path) -> None:
    """Open the package in use as a trainer does, but for hashing; there is none before the pointer was ever moved."""
    read_pin(root)
    if not os.path.lexists(root / PACKAGES / CURRENT_FILE):
        return
    pointer = read_pointer(root)
    package = open_package(current_folder(root), cache_root=root, contents="sizes", allow_unaudited=True)
    if package.info.release != pointer.used.release:
        raise CorruptResourceError(
            f"{PACKAGES}/{CURRENT_FILE}",
            "names another release than its package",
            expected=package.info.release,
            got=pointer.used.release,
            remedy="Materialise packages/current, which writes it again",
        )
    # The latest package of the pinned release has a record of its own.
    if pointer.pin is not None and not (root / PACKAGES / pointer.pin).is_dir():
        read_latest(root, pointer.pin)


def _refused_latest(root: Path) -> _Refused:
    """Open the latest package of each release that has one."""
    for folder in sorted(path for path in (root / PACKAGES).glob("*") if is_release_key(path.name) and path.is_dir()):
        record = folder / LATEST_FILE
        if not os.path.lexists(record) and not any(map(is_published_link, folder.iterdir())):
            continue
        named = str(record.relative_to(root))
        try:
            folder_of(root, read_latest(root, folder.name), named_by=named, remedy=remedy_of_latest(folder.name))
        except GenoLeWMError as err:
            yield named, err


#: Every record that something reads. Any other file of a root that a reader opens is published, or made again if it
#: differs.
RECORDS = (
    _reading(ROOT_FILE, lambda root: Root(root).check_is_root()),
    _reading(LEDGER, check_ledger),
    _reading(KEPT_FILE, read_kept),
    _reading(f"{PACKAGES}/{CURRENT_FILE}", _open_current),
    RootRecord(f"{PACKAGES}/*/{LATEST_FILE}", _refused_latest),
)


def verify_whole_root(root: Root, *, progress: Progress = NO_PROGRESS) -> list[Finding]:
    """Hash every published file of a root, open every record and index as its readers do, and return the findings.

    Those of records and of the index come first.

    Raises
    ------
    MissingResourceError, ResourceError
        If the folder is not a root, or a folder cannot be read.
    RootError
        If ``root.json`` is damaged.
    """
    root.check_is_root()
    return [*further_findings(root), *verify_root(root, progress=progress)]


def further_findings(root: Root) -> list[Finding]:
    """Return the findings that are of no artefact; errors are those of :func:`verify_whole_root`."""
    return [*find_record_faults(root), *find_index_faults(root)]
