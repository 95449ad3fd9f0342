"""Record of a root that names the package in use, the pin, and the packages that were in use before.

::

    <root>/packages/current.json    the package in use, since when and why; pin, code_version, earlier

``earlier`` has the former packages, oldest first; one write changes all of it. A package can come into use only if its
latest audit passed (``audits``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TypeAlias

from genolewm_assets.errors import CorruptResourceError, MissingResourceError, RejectedResourceError, ResourceError
from genolewm_assets.packages.audits import check_audited
from genolewm_assets.packages.damage import Hashed
from genolewm_assets.packages.reader import Contents, Package, open_package, verify_package
from genolewm_assets.packages.references import (
    PACKAGES,
    PackageRef,
    folder_of,
    other_form,
    parse_ref,
    read_latest,
    read_mapping,
    released,
    write_record,
)
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.store.artefacts import Root, read_manifest
from genolewm_assets.store.files import resolve_generation
from genolewm_assets.variants import is_release_key

CURRENT_FILE = "current.json"
#: Folder of the reports of moves, relative to the root.
REPORTS = f"{PACKAGES}/reports"

_CURRENT = f"{PACKAGES}/{CURRENT_FILE}"
#: Errors of a package that cannot be used.
_UNFIT = (MissingResourceError, CorruptResourceError, RejectedResourceError)
#: Value of a field that a record lacks, which no field may have.
_NOT_STATED = object()
_DOES_NOT_VERIFY = "the package does not verify"
#: Releases without a package that can be used, and why.
_Refused: TypeAlias = list[tuple[str, ResourceError]]
_MOVE_AGAIN = "Materialise packages/current, which writes it again"
#: The pin is lost with the record, so a person decides.
_PIN_AGAIN = (
    "Restore it from a backup, or write it again: genolewm package pin RELEASE, or without a pin: "
    "genolewm package pin --newest"
)


@dataclass(frozen=True, slots=True)
class Use(PackageRef):
    """Use of a package ``since`` a time (UTC, ISO 8601), ``why``, and whether the move to it was reported."""

    since: str
    why: str
    reported: bool

    @property
    def ref(self) -> PackageRef:
        """The package alone."""
        return PackageRef(self.release, self.path, self.manifest_sha256)


@dataclass(frozen=True, slots=True)
class Pointer:
    """Content of ``current.json``: the package in use, pinned release, version of the asset, former packages."""

    used: Use
    pin: str | None = None
    code_version: str | None = None
    earlier: tuple[Use, ...] = ()


@dataclass(frozen=True, slots=True)
class Move:
    """A move to the package in use from the package that was reported before it; None if none was."""

    before: PackageRef | None
    after: PackageRef
    reported: bool = False

    @property
    def name(self) -> str:
        """Name of the move for files: release and manifest of both packages."""
        ends = [f"{ref.release}.{ref.manifest_sha256[:12]}" if ref else "nothing" for ref in (self.before, self.after)]
        return f"{ends[1]}_after_{ends[0]}"


def read_pointer(root: Path) -> Pointer:
    """Return the record of the package in use.

    Raises
    ------
    MissingResourceError
        If no package is in use.
    CorruptResourceError
        If the record cannot be read.
    """
    path = root / _CURRENT
    document = read_mapping(path, "no package is in use", _MOVE_AGAIN, _PIN_AGAIN)
    pin, version, earlier = (document.pop(name, _NOT_STATED) for name in ("pin", "code_version", "earlier"))
    if not isinstance(pin, str | None) or not isinstance(version, str | None) or not isinstance(earlier, list):
        raise other_form(path, "pin and code_version (texts or null), earlier (a list)", document, _PIN_AGAIN)
    if pin is not None and not is_release_key(pin):
        raise other_form(path, "pin, a release or null", pin, _PIN_AGAIN)
    return Pointer(_parse_use(document, path), pin, version, tuple(_parse_use(each, path) for each in earlier))


def read_current(root: Path) -> PackageRef:
    """Return the package in use; errors are those of :func:`read_pointer`."""
    return read_pointer(root).used.ref


def read_pin(root: Path) -> str | None:
    """Return the pinned release, or None without a pin.

    Raises :class:`CorruptResourceError` for a damaged record, and :class:`MissingResourceError` for one that was
    removed, because its pin is lost with it.
    """
    pointer = _pointer_if_used(root)
    return pointer.pin if pointer else None


def _pointer_if_used(root: Path) -> Pointer | None:
    """Return the record; None before a package was ever in use. Raises as :func:`read_pin`."""
    try:
        return read_pointer(root)
    except MissingResourceError as err:
        if not (root / REPORTS).exists():
            return None
        raise MissingResourceError(
            str(root / _CURRENT), "the record of the package in use was removed, its pin too", remedy=_PIN_AGAIN
        ) from err


def read_move(root: Path) -> Move:
    """Return the latest move that was reported, or the one to report; errors are those of :func:`read_pointer`.

    Packages between two reports, which a person pinned and left again, are skipped.
    """
    pointer = read_pointer(root)
    told = [None, *(use.ref for use in (*pointer.earlier, pointer.used) if use.reported)]
    after = pointer.used.ref
    return Move(told[-2], after, reported=True) if told[-1] == after else Move(told[-1], after)


def mark_reported(root: Path, after: PackageRef) -> None:
    """Record that the latest move to a package was reported."""

    def mark(old: Pointer | None) -> Pointer | None:
        uses = [*old.earlier, old.used] if old else []
        at = max((number for number, use in enumerate(uses) if use.ref == after), default=None)
        if old is None or at is None:
            return None
        uses[at] = replace(uses[at], reported=True)
        return replace(old, used=uses[-1], earlier=tuple(uses[:-1]))

    _change(root, mark)


def current_folder(root: Path | str) -> Path:
    """Return the folder of the current package, after comparing its manifest with the digest in ``current.json``.

    Raises
    ------
    MissingResourceError
        If there is no current package, or its folder or manifest is missing.
    CorruptResourceError
        If ``current.json`` or the manifest cannot be read, or another package is at the recorded path.
    """
    return folder_of(Path(root), read_current(Path(root)), named_by=_CURRENT, remedy="Materialise packages/current")


def open_current(root: Path | str, *, contents: Contents = "once") -> Package:
    """Open the current package of a root, such as ``data``; the pointer moves to audited packages only."""
    return open_package(current_folder(root), cache_root=root, contents=contents, allow_unaudited=True)


def pin_release(root: Path, release: str | None, *, progress: Progress = NO_PROGRESS) -> PackageRef:
    """Pin a release whose latest package becomes current, or with None remove the pin, and return the package in use.

    A record that cannot be read is replaced. ``progress`` receives the number of bytes verified.

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
    else:
        ref = read_latest(root, release)
        _check_files(root, ref, "all", progress)

    def pin(old: Pointer | None) -> Pointer:
        # Without a record it is not known what was reported, and nothing is reported twice.
        return replace(_moved(old, ref, release, reported=old is None), pin=release)

    _change(root, pin, anew=True)
    return ref


def move_current(root: Path, *, code_version: str | None = None, progress: Progress = NO_PROGRESS) -> PackageRef:
    """Make the pinned release's package current, or without a pin the newest one that is audited and verifies.

    Returns the new current package; errors are those of :func:`choose_current` and :func:`read_pin`. Only files that
    were modified since they were published are hashed: of the others names, sizes and records are compared.
    ``code_version`` is that of the asset that moves the pointer.
    """
    while True:
        before = _pointer_if_used(root)
        pin = before.pin if before else None
        ref = choose_current(root, pin, progress=progress)

        def move(
            old: Pointer | None, before: Pointer | None = before, ref: PackageRef = ref, pin: str | None = pin
        ) -> Pointer | None:
            # The record may have been changed meanwhile, by a person or another move: then the choice is made again.
            return replace(_moved(old, ref, pin), code_version=code_version) if old == before else None

        if _change(root, move):
            return ref


def choose_current(
    root: Path, pin: str | None, *, hashed: Hashed = "modified", progress: Progress = NO_PROGRESS
) -> PackageRef:
    """Return the package of the pinned release, or without a pin the newest package that is audited and verifies.

    Of each release the latest package is a candidate, then the package in use, which stays while a later build of its
    release is not audited or was refused. ``hashed`` is that of
    :func:`genolewm_assets.packages.reader.verify_package`; ``progress`` receives the number of bytes verified.

    Raises
    ------
    MissingResourceError
        If the pinned release has no package or it is not audited, or no package is audited and verifies.
    RejectedResourceError
        If the latest audit of the pinned release's package failed. Without a pin, such a package is skipped.
    CorruptResourceError
        If the package of the pinned release does not verify. Without a pin, a missing or damaged package is skipped.
    """
    return _choose(root, pin, lambda ref: _check_files(root, ref, hashed, progress))


def find_current(root: Path) -> PackageRef:
    """Return the package that :func:`move_current` would choose, if the files of every package are intact.

    Only records and manifests are read; errors are those of :func:`choose_current`.
    """
    return _choose(root, read_pin(root), partial(_check_records, root))


def not_in_use(root: Path) -> Mapping[str, str]:
    """Return why the latest package of a release that would come first is not in use, by release, newest first.

    Only records and manifests are read.
    """
    return {release: str(err) for release, err in _choose_any(root, read_pin(root), partial(_check_records, root))[1]}


def _choose(root: Path, pin: str | None, check: Callable[[PackageRef], None]) -> PackageRef:
    """Return the package to use; raises as :func:`choose_current`."""
    chosen, refused = _choose_any(root, pin, check)
    if chosen is not None:
        return chosen
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


def _moved(old: Pointer | None, ref: PackageRef, pin: str | None, *, reported: bool = False) -> Pointer:
    """Return the record after a move to a package; a package that is in use already stays in use."""
    since, why = datetime.now(UTC).isoformat("T", "seconds"), f"pinned {pin}" if pin else "newest"
    use = Use(ref.release, ref.path, ref.manifest_sha256, since, why, reported)
    if old is None:
        return Pointer(use, pin)
    return old if old.used.ref == ref else replace(old, used=use, earlier=(*old.earlier, old.used))


def _change(root: Path, change: Callable[[Pointer | None], Pointer | None], *, anew: bool = False) -> bool:
    """Write, under the lock, what ``change`` makes of the record, and return whether it makes one.

    With ``anew`` a record that cannot be read counts as missing.
    """
    owner, old = Root(root), None
    with owner.storage_errors(_CURRENT), owner.lock(_CURRENT) as lease, lease.fenced():
        with suppress(MissingResourceError, *([CorruptResourceError] if anew else [])):
            old = read_pointer(root)
        new = change(old)
        if new is not None and new != old:
            rest = {"pin": new.pin, "code_version": new.code_version, "earlier": [asdict(use) for use in new.earlier]}
            write_record(root / _CURRENT, {**asdict(new.used), **rest})
    return new is not None


def _parse_use(document: object, path: Path) -> Use:
    if isinstance(document, dict):
        since, why, reported = (document.pop(name, None) for name in ("since", "why", "reported"))
        ref = parse_ref(document, path, _PIN_AGAIN)
        if isinstance(since, str) and isinstance(why, str) and isinstance(reported, bool):
            return Use(ref.release, ref.path, ref.manifest_sha256, since, why, reported)
    raise other_form(path, "since, why (texts) and reported (a truth value) of each package", document, _PIN_AGAIN)
