"""The ClinVar releases that a place offers: a folder, a directory page of a web server, or a bucket's prefix."""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import date
from urllib.parse import unquote, urlsplit

import fsspec
from tenacity.wait import wait_base

from genolewm_assets.errors import FetchError, MissingResourceError
from genolewm_assets.sources.remote import ATTEMPTS, BACK_OFF, fetch_error, read_remote

_PAGE_LIMIT_BYTES = 16 << 20
_RELEASE_FILE = re.compile(r"clinvar_(\d{4})(\d{2})(\d{2})((?:\.[A-Za-z0-9]+)*)\.vcf\.gz")
_EXAMPLE = "clinvar_YYYYMMDD.vcf.gz"
_LINK = re.compile(r"""<a\s[^>]*?href\s*=\s*["']?([^"'\s>]+)""", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Release:
    """One release.

    ``key`` is the ISO date of the file name, with ``.2``, ``.3`` behind it for further files of one date.
    ``md5_url`` is None where the place publishes no checksum of it.
    """

    key: str
    url: str
    md5_url: str | None

    @property
    def file_name(self) -> str:
        """Name of the VCF."""
        return self.url.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Listing:
    """What a place holds: releases sorted by key, and names of VCFs whose upload seems unfinished."""

    url: str
    releases: tuple[Release, ...]
    unfinished: tuple[str, ...]


def read_listing(url: str, *, attempts: int = ATTEMPTS, wait: wait_base = BACK_OFF) -> Listing:
    """List a place.

    Parameters
    ----------
    url
        A folder's path, the URL of a directory page, or a prefix of any protocol that fsspec knows.

    Returns
    -------
    Listing
        Files named ``clinvar_YYYYMMDD.vcf.gz``, also with words between date and suffix
        (``clinvar_20220525.chrM.vcf.gz``); ``clinvar.vcf.gz``, ``..._papu.vcf.gz``, indexes and checksums are no
        releases. Where the place publishes checksums, a file without one is taken for half-uploaded.

    Raises
    ------
    FetchError
        If the place is not there or cannot be read.
    """
    names = _http_names(url, attempts, wait) if url.startswith(("http://", "https://")) else _folder_names(url)
    found = sorted(filter(None, map(_parse_name, names)))
    published = {name for _, _, name in found if f"{name}.md5" in names}
    complete = [entry for entry in found if entry[2] in published or not published]
    releases = []
    keys: dict[str, int] = {}
    base = url.rstrip("/")
    for day, _, name in complete:
        keys[day] = keys.get(day, 0) + 1
        key = day if keys[day] == 1 else f"{day}.{keys[day]}"
        releases.append(Release(key, f"{base}/{name}", f"{base}/{name}.md5" if name in published else None))
    releases.sort(key=lambda release: _release_order(release.key))
    finished = {name for _, _, name in complete}
    return Listing(url, tuple(releases), tuple(name for _, _, name in found if name not in finished))


def list_releases(
    url: str, *, allowed: Collection[str] | None = None, attempts: int = ATTEMPTS, wait: wait_base = BACK_OFF
) -> list[Release]:
    """Return the complete releases of a place, oldest first; only those of ``allowed`` keys where it is given.

    Raises
    ------
    FetchError
        As :func:`read_listing`.
    MissingResourceError
        If the place offers no release at all, or lacks one of ``allowed``.
    """
    listing = read_listing(url, attempts=attempts, wait=wait)
    if allowed is None and not listing.releases:
        raise MissingResourceError(
            url,
            "offers no ClinVar release",
            expected=f"files named {_EXAMPLE}",
            got=f"{listing.unfinished[0]} without a checksum" if listing.unfinished else "none",
            remedy="Check the catalogue's clinvar.listing",
        )
    wanted = listing.releases if allowed is None else {find_release(listing, key) for key in allowed}
    return [release for release in listing.releases if release in wanted]


def find_release(listing: Listing, key: str) -> Release:
    """Return the release of a key.

    Raises
    ------
    MissingResourceError
        If the place does not offer it, or not completely yet.
    """
    for release in listing.releases:
        if release.key == key:
            return release
    arriving = [name for name in listing.unfinished if (parsed := _parse_name(name)) and parsed[0] == key[:10]]
    if arriving:
        raise MissingResourceError(
            listing.url, f"{arriving[0]} has no checksum yet", remedy="Wait until its upload is finished"
        )
    offered = ", ".join(release.key for release in listing.releases[-5:])
    raise MissingResourceError(
        listing.url,
        "no such ClinVar release",
        expected=f"one of the {len(listing.releases)} offered, such as {offered}" if offered else f"a file {_EXAMPLE}",
        got=repr(key),
        remedy="Choose one of them, or point the catalogue's listing at an archive that has it",
    )


def _parse_name(name: str) -> tuple[str, str, str] | None:
    """Return ISO date, words behind it and the name itself; None for anything but a release's VCF."""
    match = _RELEASE_FILE.fullmatch(name)
    if match is None:
        return None
    try:
        day = date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        return None
    # The plain name sorts first, so that it keeps the plain key.
    return day.isoformat(), match[4], name


def _release_order(key: str) -> tuple[str, int]:
    day, _, repeat = key.partition(".")
    return day, int(repeat or 1)


def _http_names(url: str, attempts: int, wait: wait_base) -> set[str]:
    page = read_remote(f"{url.rstrip('/')}/", limit_bytes=_PAGE_LIMIT_BYTES, attempts=attempts, wait=wait)
    if page is None:
        raise FetchError(url, "no such listing", remedy="Check the catalogue's clinvar.listing")
    # Only the last part of a link is taken, and joined to the listing: a page cannot send us elsewhere.
    links = (html.unescape(link) for link in _LINK.findall(page.decode("utf-8", "replace")))
    return _last_parts(urlsplit(link).path for link in links)


def _folder_names(url: str) -> set[str]:
    try:
        filesystem, path = fsspec.core.url_to_fs(url)
        filesystem.invalidate_cache()
        paths = filesystem.ls(path, detail=False) if filesystem.isdir(path) else None
    except Exception as error:
        raise fetch_error(url, error) from error
    if paths is None:
        raise FetchError(url, "no such listing", expected="a folder", remedy="Check the catalogue's clinvar.listing")
    return _last_parts(paths)


def _last_parts(paths: Iterable[str]) -> set[str]:
    return {unquote(path).rpartition("/")[2] for path in paths}
