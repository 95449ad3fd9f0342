"""References to packages of a root, and the record of the latest package of each release.

::

    <root>/packages/<release>/latest.json   the most recently built package of a release

The folder of a release does not say which package is the latest: an earlier one that is built again is reused.
"""

from __future__ import annotations

import errno
import re
import reprlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from genolewm_assets.errors import CorruptResourceError, MissingResourceError, ResourceError
from genolewm_assets.store.artefacts import read_manifest
from genolewm_assets.store.files import canonical_json, read_document, write_atomic
from genolewm_assets.variants import in_order, is_release_key

PACKAGES = "packages"
LATEST_FILE = "latest.json"

#: Errors of a disk that may read the record a moment later, or for somebody else.
_PASSING = frozenset({errno.EACCES, errno.EIO, errno.ESTALE})
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class PackageRef:
    """Reference to a package of a root."""

    #: ClinVar release, ISO date.
    release: str
    #: Path of the package relative to the root.
    path: str
    #: SHA-256, 64 hex digits, of the package's ``manifest.json``.
    manifest_sha256: str


def write_latest(root: Path, ref: PackageRef) -> None:
    """Record a package as the most recently built one of its release."""
    write_record(root / PACKAGES / ref.release / LATEST_FILE, asdict(ref))


def read_latest(root: Path, release: str) -> PackageRef:
    """Return the most recently built package of a release.

    Raises
    ------
    MissingResourceError
        If the release has no package.
    CorruptResourceError
        If the record cannot be read.
    """
    path = root / PACKAGES / release / LATEST_FILE
    remedy = remedy_of_latest(release)
    ref = parse_ref(read_mapping(path, f"no package of release {release!r}", remedy), path, remedy)
    if ref.release != release:
        raise CorruptResourceError(str(path), "names another release", expected=release, got=ref.release, remedy=remedy)
    return ref


def remedy_of_latest(release: str) -> str:
    """Return how the record of the latest package of a release is mended."""
    return f"Materialise packages/split for {release}, which writes it again"


def released(root: Path) -> list[str]:
    """Return the releases that have a package, newest first."""
    return in_order(path.parent.name for path in (root / PACKAGES).glob(f"*/{LATEST_FILE}"))[::-1]


def folder_of(root: Path, ref: PackageRef, *, named_by: str, remedy: str) -> Path:
    """Return the folder of a package after comparing its manifest; raise as ``current_folder``.

    ``named_by`` is the record that the reference comes from, and ``remedy`` how it is mended, for the error message.
    """
    folder = root / ref.path
    found = read_manifest(folder).sha256
    if found != ref.manifest_sha256:
        raise CorruptResourceError(
            str(folder),
            f"is not the package that {named_by} names",
            expected=f"manifest {ref.manifest_sha256}",
            got=f"manifest {found}",
            remedy=f"{remedy}, or open the package by its folder",
        )
    return folder


def write_record(path: Path, document: Mapping[str, object]) -> None:
    """Write a record atomically as canonical JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, canonical_json(document, str(path)))


def parse_ref(document: Mapping[str, object], path: Path, remedy: str) -> PackageRef:
    """Return the reference that a record holds, whose path is that of a package."""
    names = [each.name for each in fields(PackageRef)]
    texts = {name: value for name in names if isinstance(value := document.get(name), str)}
    if document.keys() != texts.keys() or texts.keys() != set(names):
        raise other_form(path, f"texts {sorted(names)}", document, remedy)
    ref = PackageRef(**texts)
    if not is_release_key(ref.release) or not _SHA256.fullmatch(ref.manifest_sha256):
        raise other_form(path, "a release and a SHA-256", document, remedy)
    # The path is opened below the root, so one that leads elsewhere is refused.
    if not re.fullmatch(rf"{PACKAGES}/\w[\w.-]*/\w[\w.-]*", ref.path, re.ASCII):
        raise other_form(path, f"a folder in {PACKAGES}/RELEASE", document, remedy)
    return ref


def other_form(path: Path, expected: str, got: object, remedy: str) -> CorruptResourceError:
    """Return the error of a record that has another form than expected."""
    return CorruptResourceError(
        str(path), "not a reference to a package", expected=expected, got=reprlib.repr(got), remedy=remedy
    )


def read_mapping(path: Path, missing: str, remedy: str, remedy_if_corrupt: str = "") -> dict[str, object]:
    """Return a record; ``missing`` says what a missing one means, and the remedies how it is mended."""
    mended = remedy_if_corrupt or remedy
    try:
        document = read_document(path, remedy=mended)
    except MissingResourceError as err:
        raise MissingResourceError(str(path), missing, remedy=remedy) from err
    except ResourceError as err:
        if isinstance(err.__cause__, OSError) and err.__cause__.errno in _PASSING:
            raise
        raise CorruptResourceError(str(path), err.problem, remedy=mended) from err
    if not isinstance(document, dict):
        raise CorruptResourceError(
            str(path), "not a record", expected="a mapping", got=type(document).__name__, remedy=mended
        )
    return document
