"""Records of a root that name the current package, the pinned release, and the latest package of each release.

::

    <root>/packages/<release>/latest.json   the most recently built package of a release
    <root>/packages/pin.json                the release that a user pinned; absent without a pin
    <root>/packages/current.json            the current package: the one that trainers read
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from genolewm_assets.errors import CorruptResourceError, MissingResourceError
from genolewm_assets.lewm.packages.reader import Package, open_package, verify_package
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.store.artefacts import read_manifest
from genolewm_assets.store.files import canonical_json, resolve_generation, write_atomic
from genolewm_assets.variants import in_order

PACKAGES = "packages"
CURRENT_FILE, PIN_FILE, LATEST_FILE = "current.json", "pin.json", "latest.json"


@dataclass(frozen=True, slots=True)
class PackageRef:
    """Reference to a package of a root.

    Attributes
    ----------
    release
        ClinVar release, ISO date.
    path
        Path of the package relative to the root.
    manifest_sha256
        SHA-256, 64 hex digits, of the package's ``manifest.json``.
    """

    release: str
    path: str
    manifest_sha256: str


def write_latest(root: Path, ref: PackageRef) -> None:
    """Record a package as the most recently built one of its release."""
    _write(root / PACKAGES / ref.release / LATEST_FILE, asdict(ref))


def read_latest(root: Path, release: str) -> PackageRef:
    """Return the most recently built package of a release.

    Raises
    ------
    MissingResourceError
        If the release has no package.
    CorruptResourceError
        If the record cannot be read.
    """
    return _read_ref(root / PACKAGES / release / LATEST_FILE, f"no package of release {release!r}")


def read_current(root: Path) -> PackageRef:
    """Return the current package, the one that trainers read.

    Raises
    ------
    MissingResourceError
        If there is no current package.
    CorruptResourceError
        If the record cannot be read.
    """
    return _read_ref(root / PACKAGES / CURRENT_FILE, "no package is in use")


def current_folder(root: Path | str) -> Path:
    """Return the folder of the current package; errors as :func:`read_current`."""
    return Path(root) / read_current(Path(root)).path


def open_current(root: Path | str, *, contents: Literal["hash", "sizes"] = "hash") -> Package:
    """Open the current package of a root, such as ``data``.

    ``contents`` is that of :func:`genolewm_assets.lewm.packages.reader.open_package`; errors are those of this function
    and of :func:`read_current`.
    """
    return open_package(current_folder(root), cache_root=root, contents=contents)


def released(root: Path) -> list[str]:
    """Return the releases that have a package, newest first."""
    return in_order(path.parent.name for path in (root / PACKAGES).glob(f"*/{LATEST_FILE}"))[::-1]


def read_pin(root: Path) -> str | None:
    """Return the pinned release, or None without a pin.

    Raises
    ------
    CorruptResourceError
        If the record cannot be read or names no release.
    """
    path = root / PACKAGES / PIN_FILE
    if not path.is_file():
        return None
    document = _read(path, "no pin")
    if "release" not in document:
        raise CorruptResourceError(str(path), "names no release", remedy="Pin it again: genolewm package pin RELEASE")
    return str(document["release"])


def pin_release(root: Path, release: str | None, *, progress: Progress = NO_PROGRESS) -> PackageRef:
    """Pin a release, or with None remove the pin, and change the current package accordingly.

    Parameters
    ----------
    root
        Root of the artefacts.
    release
        ClinVar release whose latest package becomes current; None: the newest release whose package verifies.
    progress
        Receives the number of bytes verified.

    Returns
    -------
    PackageRef
        The new current package.

    Raises
    ------
    MissingResourceError
        If the release has no package, or, with None, no package verifies. Nothing is changed.
    CorruptResourceError
        If the package of the release does not verify. Nothing is changed.
    """
    ref = choose_current(root, release, progress=progress)
    if release is None:
        (root / PACKAGES / PIN_FILE).unlink(missing_ok=True)
    else:
        _write(root / PACKAGES / PIN_FILE, {"release": release})
    _write(root / PACKAGES / CURRENT_FILE, asdict(ref))
    return ref


def move_current(root: Path, *, progress: Progress = NO_PROGRESS) -> PackageRef:
    """Make the pinned release's package current, or without a pin the newest one that verifies.

    Returns the new current package; errors are those of :func:`pin_release`.
    """
    ref = choose_current(root, read_pin(root), progress=progress)
    _write(root / PACKAGES / CURRENT_FILE, asdict(ref))
    return ref


def choose_current(root: Path, pin: str | None, *, progress: Progress = NO_PROGRESS) -> PackageRef:
    """Return the package of the pinned release, or without a pin the newest package that verifies.

    Parameters
    ----------
    root
        Root of the artefacts.
    pin
        Pinned release, or None.
    progress
        Receives the number of bytes verified.

    Raises
    ------
    MissingResourceError
        If the pinned release has no package, or no package verifies.
    CorruptResourceError
        If the package of the pinned release does not verify. Without a pin, a missing or damaged package is skipped.
    """
    if pin is not None:
        ref = read_latest(root, pin)
        for finding in _faults(root, ref, progress):
            raise CorruptResourceError(f"{ref.path}/{finding}", "the package does not verify", remedy="Rebuild it")
        return ref
    for release in released(root):
        try:
            ref = read_latest(root, release)
            if not any(_faults(root, ref, progress)):
                return ref
        except (MissingResourceError, CorruptResourceError):
            continue
    raise MissingResourceError(
        str(root / PACKAGES), "no package verifies", remedy="Materialise packages/split for a release"
    )


def _faults(root: Path, ref: PackageRef, progress: Progress) -> Iterator[str]:
    """Yield the faults of a package: a manifest that differs from the recorded one, and damaged files."""
    directory = resolve_generation(root / ref.path)
    if read_manifest(directory).sha256 != ref.manifest_sha256:
        yield "manifest.json"
    for finding in verify_package(directory, cache_root=root, progress=progress):
        if finding.is_fault:
            yield str(finding)


def _write(path: Path, document: dict[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, canonical_json(document, str(path)))


def _read_ref(path: Path, missing: str) -> PackageRef:
    document = _read(path, missing)
    try:
        return PackageRef(**document)
    except TypeError as err:
        raise CorruptResourceError(str(path), "not a reference to a package", remedy="Rebuild packages/split") from err


def _read(path: Path, missing: str) -> dict[str, str]:
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError as err:
        raise MissingResourceError(str(path), missing, remedy="Materialise packages/split") from err
    except (OSError, ValueError) as err:
        raise CorruptResourceError(str(path), f"cannot be read ({err})", remedy="Rebuild packages/split") from err
    if not isinstance(document, dict):
        raise CorruptResourceError(str(path), "not a record", expected="a mapping", got=type(document).__name__)
    return document
