"""Records of a root that name the current package, the pinned release, and the latest package of each release.

::

    <root>/packages/<release>/latest.json   the most recently built package of a release
    <root>/packages/pin.json                the release that a user pinned; absent without a pin
    <root>/packages/current.json            the current package: the one that trainers read
    <root>/packages/current.version.json    version of the code that last chose it from all packages

A package can become current only if its latest audit passed (``audits``). Not here: which package was in use before
(``moves``).
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import TypeAlias

from genolewm_assets.errors import CorruptResourceError, MissingResourceError, RejectedResourceError, ResourceError
from genolewm_assets.lewm.packages.audits import check_audited
from genolewm_assets.lewm.packages.damage import Hashed
from genolewm_assets.lewm.packages.reader import Contents, Package, open_package, verify_package
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.store.artefacts import read_manifest
from genolewm_assets.store.files import JsonValue, canonical_json, read_document, resolve_generation, write_atomic
from genolewm_assets.variants import in_order, is_release_key

PACKAGES = "packages"
CURRENT_FILE, PIN_FILE, LATEST_FILE = "current.json", "pin.json", "latest.json"
VERSION_FILE = "current.version.json"

_SHA256 = re.compile(r"[0-9a-f]{64}")
#: Errors of a package that cannot be used.
_UNFIT = (MissingResourceError, CorruptResourceError, RejectedResourceError)
_DOES_NOT_VERIFY = "the package does not verify"
#: Releases without a package that can be used, and why.
_Refused: TypeAlias = list[tuple[str, ResourceError]]
_MOVE_AGAIN = "Materialise packages/current, which writes it again"
_PIN_AGAIN = "Pin a release again: genolewm package pin RELEASE; or remove the pin: genolewm package pin --newest"


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
    write_document(root / PACKAGES / ref.release / LATEST_FILE, asdict(ref))


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
    ref = _read_ref(path, f"no package of release {release!r}", remedy)
    if ref.release != release:
        raise CorruptResourceError(str(path), "names another release", expected=release, got=ref.release, remedy=remedy)
    return ref


def remedy_of_latest(release: str) -> str:
    """Return how the record of the latest package of a release is mended."""
    return f"Materialise packages/split for {release}, which writes it again"


def read_current(root: Path) -> PackageRef:
    """Return the current package, the one that trainers read.

    Raises
    ------
    MissingResourceError
        If there is no current package.
    CorruptResourceError
        If the record cannot be read.
    """
    return _read_ref(root / PACKAGES / CURRENT_FILE, "no package is in use", _MOVE_AGAIN)


def current_folder(root: Path | str) -> Path:
    """Return the folder of the current package, after comparing its manifest with the digest in ``current.json``.

    Raises
    ------
    MissingResourceError
        If there is no current package, or its folder or manifest is missing.
    CorruptResourceError
        If ``current.json`` or the manifest cannot be read, or another package is at the recorded path.
    """
    ref = read_current(Path(root))
    return folder_of(Path(root), ref, named_by=f"{PACKAGES}/{CURRENT_FILE}", remedy="Materialise packages/current")


def folder_of(root: Path, ref: PackageRef, *, named_by: str, remedy: str) -> Path:
    """Return the folder of a package after comparing its manifest; errors are those of :func:`current_folder`.

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


def open_current(root: Path | str, *, contents: Contents = "once") -> Package:
    """Open the current package of a root, such as ``data``.

    ``contents`` is that of :func:`genolewm_assets.lewm.packages.reader.open_package`; errors are those of this function
    and of :func:`current_folder`.
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
    try:
        release = read_mapping(path, "no pin", _PIN_AGAIN).get("release")
    except MissingResourceError:
        return None
    if not isinstance(release, str) or not is_release_key(release):
        raise CorruptResourceError(str(path), "names no release", remedy=_PIN_AGAIN)
    return release


def pin_release(root: Path, release: str | None, *, progress: Progress = NO_PROGRESS) -> PackageRef:
    """Pin a release, or with None remove the pin, and change the current package accordingly.

    Parameters
    ----------
    root
        Root of the artefacts.
    release
        ClinVar release whose latest package becomes current; None: the newest release whose package is audited and
        verifies.
    progress
        Receives the number of bytes verified.

    Returns
    -------
    PackageRef
        The new current package.

    Raises
    ------
    MissingResourceError
        If the release has no package or its latest one is not audited, or, with None, no package is audited and
        verifies. Nothing is changed.
    RejectedResourceError
        If the latest audit of the package failed. Nothing is changed.
    CorruptResourceError
        If the package of the release does not verify. Nothing is changed.
    """
    if release is None:
        ref = choose_current(root, None, hashed="all", progress=progress)
        (root / PACKAGES / PIN_FILE).unlink(missing_ok=True)
    else:
        ref = read_latest(root, release)
        _check_files(root, ref, "all", progress)
        write_document(root / PACKAGES / PIN_FILE, {"release": release})
    write_document(root / PACKAGES / CURRENT_FILE, asdict(ref))
    return ref


def move_current(root: Path, *, progress: Progress = NO_PROGRESS) -> PackageRef:
    """Make the pinned release's package current, or without a pin the newest one that is audited and verifies.

    Returns the new current package; errors are those of :func:`choose_current`. Only files that were modified since
    they were published are hashed: of the others names, sizes and records are compared.
    """
    ref = choose_current(root, read_pin(root), progress=progress)
    write_document(root / PACKAGES / CURRENT_FILE, asdict(ref))
    return ref


def choose_current(
    root: Path, pin: str | None, *, hashed: Hashed = "modified", progress: Progress = NO_PROGRESS
) -> PackageRef:
    """Return the package of the pinned release, or without a pin the newest package that is audited and verifies.

    Of each release the latest package is a candidate, then the package in use, which stays while a later build of its
    release is not audited or was refused.

    Parameters
    ----------
    root
        Root of the artefacts.
    pin
        Pinned release, or None.
    hashed
        Files to hash, as for :func:`genolewm_assets.lewm.packages.reader.verify_package`.
    progress
        Receives the number of bytes verified.

    Raises
    ------
    MissingResourceError
        If the pinned release has no package or it is not audited, or no package is audited and verifies.
    RejectedResourceError
        If the latest audit of the pinned release's package failed. Without a pin, such a package is skipped.
    CorruptResourceError
        If the package of the pinned release does not verify. Without a pin, a missing or damaged package is skipped.
    """
    return _choose(root, pin, lambda ref: _check_files(root, ref, hashed, progress))[0]


def find_current(root: Path) -> PackageRef:
    """Return the package that :func:`move_current` would choose, if the files of every package are intact.

    Only records and manifests are read; errors are those of :func:`choose_current`.
    """
    return _choose(root, read_pin(root), lambda ref: _check_records(root, ref))[0]


def not_in_use(root: Path) -> Mapping[str, str]:
    """Return why the latest package of a release that would come first is not in use, by release, newest first.

    Only records and manifests are read.
    """
    return {release: str(err) for release, err in _choose_any(root, read_pin(root), partial(_check_records, root))[1]}


def _choose(root: Path, pin: str | None, check: Callable[[PackageRef], None]) -> tuple[PackageRef, _Refused]:
    """Return the package to use, and why newer ones are not in use; raises as :func:`choose_current`."""
    chosen, refused = _choose_any(root, pin, check)
    if chosen is not None:
        return chosen, refused
    if pin is not None:
        raise refused[0][1]
    raise MissingResourceError(
        str(root / PACKAGES),
        "no package verifies and is audited",
        got="; ".join(f"{release}: {err.problem}" for release, err in refused) or "none",
        remedy="Materialise packages/split and packages/audit for a release",
    )


def _choose_any(root: Path, pin: str | None, check: Callable[[PackageRef], None]) -> tuple[PackageRef | None, _Refused]:
    refused: _Refused = []
    for release in released(root) if pin is None else [pin]:
        try:
            check(ref := read_latest(root, release))
        except _UNFIT as err:
            refused.append((release, err))
        else:
            return ref, refused
        with suppress(*_UNFIT):
            used = read_current(root)
            if used.release == release:
                check(used)
                return used, refused
    return None, refused


def _check_records(root: Path, ref: PackageRef) -> None:
    """Raise one of the errors of :func:`choose_current` unless a package is audited and has its recorded manifest."""
    check_audited(root, ref.release, ref.manifest_sha256)
    if read_manifest(resolve_generation(root / ref.path)).sha256 != ref.manifest_sha256:
        raise CorruptResourceError(f"{ref.path}/manifest.json", _DOES_NOT_VERIFY, remedy="Rebuild it")


def _check_files(root: Path, ref: PackageRef, hashed: Hashed, progress: Progress) -> None:
    """Raise one of the errors of :func:`choose_current` unless a package is audited and verifies."""
    _check_records(root, ref)
    directory = resolve_generation(root / ref.path)
    for finding in verify_package(directory, cache_root=root, hashed=hashed, progress=progress):
        if finding.is_fault:
            raise CorruptResourceError(f"{ref.path}/{finding}", _DOES_NOT_VERIFY, remedy="Rebuild it")


def write_current_version(root: Path, code_version: str) -> None:
    """Record the version of the code that chose the current package."""
    write_document(root / PACKAGES / VERSION_FILE, {"code_version": code_version})


def read_current_version(root: Path) -> str | None:
    """Return the version of the code that chose the current package; None if it is not recorded.

    Raises
    ------
    CorruptResourceError
        If the record cannot be read.
    """
    path = root / PACKAGES / VERSION_FILE
    try:
        version = read_mapping(path, "no version", _MOVE_AGAIN).get("code_version")
    except MissingResourceError:
        return None
    if not isinstance(version, str):
        raise CorruptResourceError(str(path), "names no version", remedy=_MOVE_AGAIN)
    return version


def write_document(path: Path, document: Mapping[str, JsonValue]) -> None:
    """Write a record of the pointer, atomically, as canonical JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, canonical_json(document, str(path)))


def _read_ref(path: Path, missing: str, remedy: str) -> PackageRef:
    return parse_ref(read_mapping(path, missing, remedy), path, remedy)


def parse_ref(document: Mapping[str, object], path: Path, remedy: str) -> PackageRef:
    """Return the reference that a record holds; ``path`` and ``remedy`` are of the record, for errors.

    Raises
    ------
    CorruptResourceError
        If it is no reference, or its path is none of a package.
    """
    names = [each.name for each in fields(PackageRef)]
    texts = {name: value for name in names if isinstance(value := document.get(name), str)}
    if document.keys() != texts.keys() or texts.keys() != set(names):
        raise _no_reference(path, f"texts {sorted(names)}", document, remedy)
    ref = PackageRef(**texts)
    if not is_release_key(ref.release) or not _SHA256.fullmatch(ref.manifest_sha256):
        raise _no_reference(path, "a release and a SHA-256", document, remedy)
    # The path is opened below the root, so one that leads elsewhere is refused.
    if not re.fullmatch(rf"{PACKAGES}/\w[\w.-]*/\w[\w.-]*", ref.path, re.ASCII):
        raise _no_reference(path, f"a folder in {PACKAGES}/RELEASE", document, remedy)
    return ref


def _no_reference(path: Path, expected: str, got: object, remedy: str) -> CorruptResourceError:
    return CorruptResourceError(
        str(path), "not a reference to a package", expected=expected, got=reprlib.repr(got), remedy=remedy
    )


def read_mapping(path: Path, missing: str, remedy: str) -> dict[str, object]:
    """Return a record of the pointer.

    Raises
    ------
    MissingResourceError
        If there is none; ``missing`` says what that means.
    CorruptResourceError
        If it cannot be read or is no mapping.
    """
    try:
        document = read_document(path, remedy=remedy)
    except MissingResourceError as err:
        raise MissingResourceError(str(path), missing, remedy=remedy) from err
    except ResourceError as err:
        raise CorruptResourceError(str(path), err.problem, remedy=remedy) from err
    if not isinstance(document, dict):
        raise CorruptResourceError(
            str(path), "not a record", expected="a mapping", got=type(document).__name__, remedy=remedy
        )
    return document
