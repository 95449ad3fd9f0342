"""The releases of a root, ``<root>/clinvar/releases.json``: file name and identity of each release key, oldest first.

A server may replace a file under the same name. The key ``2026-02-26`` keeps meaning the first file's bytes; a
replacement, or another file of that date, gets the key ``2026-02-26.2``.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from genolewm_assets.errors import CorruptResourceError, MissingResourceError, ResourceError
from genolewm_assets.sources.clinvar.listing import (
    EXAMPLE,
    Listing,
    day_of,
    md5_in,
    read_identity,
    read_listing,
    stamp_identity,
)
from genolewm_assets.store.artefacts import Root, read_manifest
from genolewm_assets.store.files import (
    canonical_json,
    make_directories,
    read_document,
    resolve_generation,
    write_atomic,
)
from genolewm_assets.variants import ReleaseKey, is_release_key

#: Folder of ClinVar's artefacts in a root.
CLINVAR = "clinvar"
#: Path of the record, relative to the root.
LEDGER = f"{CLINVAR}/releases.json"

_SCHEMA, _SCHEMA_VERSION = "genolewm.clinvar_releases", "1.0"
_NO_RELEASE = "has an entry that is not a release"
_IDENTITY = re.compile(r"[ -~]+")
#: Writers hold the record's lock only briefly, and a sensor cannot wait long.
_LOCK_WAIT_S = 10.0


@dataclass(frozen=True, slots=True)
class RegisteredRelease:
    """A release key with the file name and the identity of the content (``ListedFile.identity``) that it means."""

    key: str
    file_name: str
    identity: str

    @property
    def md5(self) -> str | None:
        """The published MD5, hex; None if the identity is not an MD5."""
        return md5_in(self.identity)

    def url_at(self, place: str) -> str:
        """Return the URL of the file in the listing ``place`` (a URL or path)."""
        return f"{place.rstrip('/')}/{self.file_name}"


def register_releases(root: Path, listing: Listing, *, newest_first: bool = False) -> tuple[RegisteredRelease, ...]:
    """Assign a release key to each new file of a listing, and return all known releases, oldest first.

    The first file of a date gets the date as key; further files of the date, and other content under the same name, get
    the next number. A repeated call with the same listing, also in another process or after a kill, changes nothing.
    With ``newest_first`` files older than the oldest known release, or than the newest file if none is known, are left
    out.

    Raises
    ------
    CorruptResourceError
        If the record is damaged, or the manifest of a published release that the record lacks.
    BusyError, ResourceError
        If another process holds the record's lock, or the root cannot be written.
    """
    owner = Root(root, lock_wait_s=_LOCK_WAIT_S)
    with owner.storage_errors(LEDGER), owner.lock(LEDGER) as lease:
        known = _with_new(read_ledger(root), listing, newest_first=newest_first)
        if known != _read_record(root / LEDGER):
            with lease.fenced():
                _write_record(root / LEDGER, known)
    return tuple(known)


def _with_new(known: Iterable[RegisteredRelease], listing: Listing, *, newest_first: bool) -> list[RegisteredRelease]:
    """Return the known releases and those of the new files of a listing, oldest first."""
    releases, days = list(known), [file.day for file in listing.files]
    first = min((day_of(each.file_name) or "" for each in releases), default=max(days, default=""))
    for file in listing.files:
        if newest_first and file.day < first:
            continue
        if (file.file_name, file.identity) not in map(_content_of, releases):
            releases.append(RegisteredRelease(_next_key(releases, file.day), file.file_name, file.identity))
    return sorted(releases, key=_order)


def listed_releases(root: Path, listing: Listing, *, newest_first: bool = False) -> tuple[RegisteredRelease, ...]:
    """Return the releases that the files of a listing are, or would be when they are registered, oldest first.

    Nothing is written; raises :class:`CorruptResourceError` as :func:`read_ledger`.
    """
    return offered_releases(_with_new(read_ledger(root), listing, newest_first=newest_first), listing)


def stated_release(root: Path, place: str, key: str) -> RegisteredRelease:
    """Return the release of a key with the identity that its file at ``place`` has now, without writing anything.

    A file that is no longer offered keeps its recorded identity: only these bytes are accepted under the key. The
    server is asked once: a survey asks for every release, and repeated attempts at a server that is down take minutes.

    Raises
    ------
    MissingResourceError, FetchError
        If the key is not recorded, or the file cannot be asked about; also as :func:`read_ledger`.
    """
    known = {release.key: release for release in read_ledger(root)}
    if key not in known:
        raise MissingResourceError(
            str(root / LEDGER),
            f"no such release: {key!r}",
            remedy="Let clinvar_release_sensor find it, or check the key",
        )
    release = known[key]
    identity = read_identity(release.url_at(place), published=release.md5 is not None, attempts=1)
    return release if identity is None else replace(release, identity=identity)


def read_ledger(root: Path) -> tuple[RegisteredRelease, ...]:
    """Return the known releases, oldest first: those in the record, and published ones that the record lacks.

    Raises
    ------
    CorruptResourceError
        As :func:`register_releases`.
    """
    recorded = _read_record(root / LEDGER)
    keys, held = {release.key for release in recorded}, set(map(_content_of, recorded))
    published = (each for each in _published_releases(root, keys) if _content_of(each) not in held)
    return tuple(sorted([*recorded, *published], key=_order))


def check_ledger(root: Path) -> None:
    """Check that the record can be read and has every published release.

    Raises
    ------
    MissingResourceError
        If it lacks a published release; also as :func:`read_ledger`.
    """
    recorded = set(_read_record(root / LEDGER))
    if lacking := [release.key for release in read_ledger(root) if release not in recorded]:
        raise MissingResourceError(
            str(root / LEDGER),
            "lacks published releases",
            got=", ".join(lacking),
            remedy="clinvar_release_sensor writes it again when it next reads the listing: start it, or wait",
        )


def offered_releases(known: Iterable[RegisteredRelease], listing: Listing) -> tuple[RegisteredRelease, ...]:
    """Return the known releases whose file name and identity are in a listing, in the order of ``known``."""
    offered = {(file.file_name, file.identity) for file in listing.files}
    return tuple(release for release in known if _content_of(release) in offered)


def choose_releases(
    root: Path, listing: Listing, allowed: Collection[str] | None = None, *, newest_first: bool = False
) -> tuple[RegisteredRelease, ...]:
    """Register the files of a listing and return their releases, or those of the keys ``allowed``, oldest first.

    Raises
    ------
    MissingResourceError
        If ``allowed`` is None and the listing has no release, or if it lacks one of ``allowed``; also as
        :func:`register_releases`.
    """
    offered = offered_releases(register_releases(root, listing, newest_first=newest_first), listing)
    if allowed is None and not offered:
        raise MissingResourceError(
            listing.url,
            "offers no ClinVar release",
            expected=f"files named {EXAMPLE}",
            got=next(iter(listing.unfinished.values()), "none"),
            remedy="Check the catalogue's clinvar.listing",
        )
    keys = {release.key for release in offered}
    for key in allowed or ():
        if key not in keys:
            raise _not_offered(listing, offered, key)
    return tuple(release for release in offered if allowed is None or release.key in allowed)


def find_release(root: Path, place: str, key: str, *, newest_first: bool = False) -> RegisteredRelease:
    """Return the release of a key, after checking that ``place``, the URL of the listing, still offers its content.

    ``newest_first`` as in :func:`register_releases`.

    Raises
    ------
    MissingResourceError
        If the listing lacks the release, its upload is unfinished, or its file has other content now.
    ResourceError, FetchError
        As :func:`register_releases`, and if the listing cannot be read.
    """
    known = {release.key: release for release in read_ledger(root)}
    if key not in known:
        listing = read_listing(place)
        known = {release.key: release for release in register_releases(root, listing, newest_first=newest_first)}
        if key not in known:
            raise _not_offered(listing, offered_releases(known.values(), listing), key)
    check_offered(root, place, known[key], newest_first=newest_first)
    return known[key]


def check_offered(root: Path, place: str, release: RegisteredRelease, *, newest_first: bool = False) -> None:
    """Check that a listing offers the content that a release was registered with; raises as :func:`find_release`."""
    url = release.url_at(place)
    if read_identity(url, published=release.md5 is not None) == release.identity:
        return
    listing = read_listing(place)
    offered = offered_releases(register_releases(root, listing, newest_first=newest_first), listing)
    if release in offered:
        return
    for newer in offered:
        if newer.file_name == release.file_name:
            raise MissingResourceError(
                url,
                f"the content of release {release.key!r} is no longer offered",
                expected=release.identity,
                got=newer.identity,
                remedy=f"Materialise {newer.key!r}, the release of the current content",
            )
    raise _not_offered(listing, offered, release.key)


def _not_offered(listing: Listing, offered: Collection[RegisteredRelease], key: str) -> MissingResourceError:
    for name, problem in listing.unfinished.items():
        if day_of(name) == key[:10]:
            return MissingResourceError(listing.url, problem, remedy="Wait until its upload is finished")
    latest = ", ".join([release.key for release in offered][-5:])
    return MissingResourceError(
        listing.url,
        "no such ClinVar release",
        expected=f"one of the {len(offered)} offered, such as {latest}" if latest else f"a file {EXAMPLE}",
        got=repr(key),
        remedy="Choose an offered release, or set the catalogue's clinvar.listing to an archive that has this one",
    )


def _content_of(release: RegisteredRelease) -> tuple[str, str]:
    return release.file_name, release.identity


def _order(release: RegisteredRelease) -> ReleaseKey:
    return ReleaseKey.parse(release.key)


def _next_key(known: Iterable[RegisteredRelease], day: str) -> str:
    taken = [key for key in map(_order, known) if str(key.day) == day]
    return str(replace(max(taken), number=max(taken).number + 1)) if taken else day


def _published_releases(root: Path, recorded: Collection[str]) -> Iterator[RegisteredRelease]:
    """Yield the published releases whose keys the record lacks; a key means the file that was published under it."""
    for link in sorted((root / CLINVAR).glob("*/vcf")):
        key = link.parent.name
        if not is_release_key(key) or key in recorded:
            continue
        try:
            source = read_manifest(resolve_generation(link)).recipe["source"]
        except MissingResourceError:
            continue
        if not isinstance(source, Mapping):
            raise CorruptResourceError(str(link), "does not name its source", remedy="Restore it from a backup")
        stamp = stamp_identity(int(str(source.get("size_bytes", 0))), str(source.get("version", "")))
        yield RegisteredRelease(key, str(source["file"]), str(source.get("md5", stamp)))


def _read_record(path: Path) -> list[RegisteredRelease]:
    """Return the entries of the record, oldest first; an empty list if there is no record."""
    try:
        document = read_document(path, remedy="")
    except MissingResourceError:
        return []
    except ResourceError as err:
        raise _corrupt(path, err.problem) from err
    form = tuple(document.get(name) for name in ("schema", "schema_version")) if isinstance(document, dict) else None
    if form != (_SCHEMA, _SCHEMA_VERSION) or not isinstance(document.get("releases"), list):
        raise _corrupt(path, "is not a record of releases", expected=f"{_SCHEMA} {_SCHEMA_VERSION}", got=document)
    releases = [_parse_entry(entry, path) for entry in document["releases"]]
    _check_distinct([release.key for release in releases], path)
    _check_distinct([" ".join(_content_of(release)) for release in releases], path)
    return sorted(releases, key=_order)


def _check_distinct(values: list[str], path: Path) -> None:
    if len(set(values)) != len(values):
        raise _corrupt(path, "names a release twice", got=next(value for value in values if values.count(value) > 1))


def _parse_entry(entry: object, path: Path) -> RegisteredRelease:
    names = {field.name for field in fields(RegisteredRelease)}
    if not isinstance(entry, dict) or set(entry) != names or not all(isinstance(v, str) for v in entry.values()):
        raise _corrupt(path, _NO_RELEASE, expected=f"texts {sorted(names)}", got=entry)
    release = RegisteredRelease(**entry)
    day = str(_order(release).day) if is_release_key(release.key) else ""
    # The file name becomes part of a URL or a path, so only the file name of a release of that day is accepted.
    if day_of(release.file_name) != day or not _IDENTITY.fullmatch(release.identity):
        raise _corrupt(path, _NO_RELEASE, expected="a date, a file of that date and its identity", got=entry)
    return release


def _corrupt(path: Path, problem: str, *, expected: str | None = None, got: object = None) -> CorruptResourceError:
    remedy = "Restore it from a backup, or remove it: it is then rebuilt from the published releases"
    shown = None if got is None else reprlib.repr(got)
    return CorruptResourceError(str(path), problem, expected=expected, got=shown, remedy=remedy)


def _write_record(path: Path, releases: Iterable[RegisteredRelease]) -> None:
    document = {"schema": _SCHEMA, "schema_version": _SCHEMA_VERSION, "releases": [asdict(each) for each in releases]}
    make_directories(path.parent)
    write_atomic(path, canonical_json(document, str(path)))
