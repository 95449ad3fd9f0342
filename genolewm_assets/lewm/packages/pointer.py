"""Which package trainers read: the latest of each release, the one in use, and the pin that holds it.

::

    <root>/packages/<release>/latest.json   the package that was built last of a release
    <root>/packages/pin.json                the release that a person chose, if any
    <root>/packages/current.json            the package in use
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
    """A package of a root: its release, root-relative path, and the SHA-256 of its manifest."""

    release: str
    path: str
    manifest_sha256: str


def write_latest(root: Path, ref: PackageRef) -> None:
    """Record the package that was built last of its release."""
    _write(root / PACKAGES / ref.release / LATEST_FILE, asdict(ref))


def read_latest(root: Path, release: str) -> PackageRef:
    """Return the package that was built last of a release.

    Raises
    ------
    MissingResourceError
        If the release has none.
    CorruptResourceError
        If the record cannot be read.
    """
    return _read_ref(root / PACKAGES / release / LATEST_FILE, f"no package of release {release!r}")


def read_current(root: Path) -> PackageRef:
    """Return the package in use; raises as :func:`read_latest`."""
    return _read_ref(root / PACKAGES / CURRENT_FILE, "no package is in use")


def current_folder(root: Path | str) -> Path:
    """Return the folder of the package in use; raises as :func:`read_latest`."""
    return Path(root) / read_current(Path(root)).path


def open_current(root: Path | str, *, contents: Literal["hash", "sizes"] = "hash") -> Package:
    """Open the package in use of a root, such as ``data``; ``contents`` and errors as for ``packages.open_package``."""
    return open_package(current_folder(root), cache_root=root, contents=contents)


def released(root: Path) -> list[str]:
    """Return the releases that have a package, newest first."""
    return in_order(path.parent.name for path in (root / PACKAGES).glob(f"*/{LATEST_FILE}"))[::-1]


def read_pin(root: Path) -> str | None:
    """Return the pinned release, None without a pin."""
    path = root / PACKAGES / PIN_FILE
    return str(_read(path, "no pin")["release"]) if path.is_file() else None


def pin_release(root: Path, release: str | None, *, progress: Progress = NO_PROGRESS) -> PackageRef:
    """Hold trainers to a release, or with None let them follow the newest; the pointer moves at once.

    Raises
    ------
    MissingResourceError
        If the release has no package, or none verifies.
    CorruptResourceError
        If the package does not verify; the pointer stays.
    """
    ref = choose_current(root, release, progress=progress)
    if release is None:
        (root / PACKAGES / PIN_FILE).unlink(missing_ok=True)
    else:
        _write(root / PACKAGES / PIN_FILE, {"release": release})
    _write(root / PACKAGES / CURRENT_FILE, asdict(ref))
    return ref


def move_current(root: Path, *, progress: Progress = NO_PROGRESS) -> PackageRef:
    """Point trainers to the pinned release, or to the newest whose package verifies; raises as :func:`pin_release`."""
    ref = choose_current(root, read_pin(root), progress=progress)
    _write(root / PACKAGES / CURRENT_FILE, asdict(ref))
    return ref


def choose_current(root: Path, pin: str | None, *, progress: Progress = NO_PROGRESS) -> PackageRef:
    """Return the pinned release's package, or the newest that verifies; a missing or bad one never blocks the rest."""
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
    """Yield what is wrong with a package: another manifest than recorded, or a damaged file."""
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
        raise CorruptResourceError(str(path), "not a record of a package", remedy="Rebuild packages/split") from err


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
