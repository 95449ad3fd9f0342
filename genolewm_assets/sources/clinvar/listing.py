"""The ClinVar files that a place offers: a folder, a directory page of a web server, or a bucket's prefix."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import TypeVar
from urllib.parse import unquote, urlsplit

import fsspec
from tenacity.wait import wait_base

from genolewm_assets.errors import FetchError, GenoLeWMError
from genolewm_assets.sources.files import (
    ATTEMPTS,
    BACK_OFF,
    ask_remote,
    fetch_error,
    is_absent,
    published_md5,
    read_remote,
)

_T = TypeVar("_T")

_PAGE_LIMIT_BYTES = 16 << 20
#: Checksum files are a few bytes each: many at once take no longer than one.
_READERS = 8
_RELEASE_FILE = re.compile(r"clinvar_([0-9]{4})([0-9]{2})([0-9]{2})((?:\.[A-Za-z0-9]+)*)\.vcf\.gz")
_MD5 = re.compile(r"[0-9a-f]{32}")
EXAMPLE = "clinvar_YYYYMMDD.vcf.gz"
#: What file systems allow for one name.
_MAX_NAME = 255
# No `<` inside a tag: on a hostile page every tag would otherwise be looked for to the page's end.
_LINK = re.compile(r"""<a\s[^<>]*?href\s*=\s*["']?([^"'\s<>]+)""", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ListedFile:
    """One ClinVar VCF.

    Attributes
    ----------
    day
        ISO date in its name.
    identity
        What tells its bytes from others: the MD5 that the place publishes, or size with ETag or time where it
        publishes none.
    """

    day: str
    url: str
    identity: str

    @property
    def file_name(self) -> str:
        """Name of the VCF."""
        return self.url.rpartition("/")[2]

    @property
    def md5(self) -> str | None:
        """The published MD5; None where the place publishes none."""
        return md5_in(self.identity)


@dataclass(frozen=True, slots=True)
class Listing:
    """What a place holds.

    Attributes
    ----------
    files
        By date; of one date the plain name first.
    unfinished
        Names of VCFs that seem to be arriving still, each with what is wrong.
    """

    url: str
    files: tuple[ListedFile, ...]
    unfinished: Mapping[str, str]


def read_listing(
    url: str, *, attempts: int = ATTEMPTS, wait: wait_base = BACK_OFF, within_s: float | None = None
) -> Listing:
    """List a place, and read the checksums that it publishes, several at a time.

    Parameters
    ----------
    url
        A folder's path, the URL of a directory page, or a prefix of any protocol that fsspec knows.
    within_s
        Seconds after which to go on without the checksums that have not come; None: wait for all of them.

    Returns
    -------
    Listing
        Files named ``clinvar_YYYYMMDD.vcf.gz``, also with words between date and suffix
        (``clinvar_20220525.chrM.vcf.gz``); ``clinvar.vcf.gz``, ``..._papu.vcf.gz``, indexes and checksums are no
        releases. Where the place publishes checksums, a file without a good one is taken for half-uploaded.

    Raises
    ------
    FetchError
        If the place is not there, cannot be read, or does not answer in time.
    """
    base, deadline = url.rstrip("/"), _Deadline(within_s)
    with _readers() as pool:
        names = deadline.result(pool.submit(_list_names, url, attempts, wait), url)
        found = {name: day for day, _, name in sorted(filter(None, map(_parse_name, names)))}
        published = {name for name in found if f"{name}.md5" in names}
        read = partial(read_identity, published=bool(published), attempts=attempts, wait=wait)
        pending = {name: pool.submit(read, f"{base}/{name}") for name in found if name in published or not published}
        deadline.wait(pending.values())
    files, unfinished = [], {name: f"{name} has no checksum yet" for name in found if name not in pending}
    for name, answer in pending.items():
        try:
            identity = deadline.result(answer, f"{base}/{name}")
        except GenoLeWMError as err:
            unfinished[name] = str(err)
        else:
            if identity is None:
                unfinished[name] = f"{name} went while the place was read"
            else:
                files.append(ListedFile(found[name], f"{base}/{name}", identity))
    return Listing(url, tuple(files), unfinished)


def read_identity(url: str, *, published: bool, attempts: int = ATTEMPTS, wait: wait_base = BACK_OFF) -> str | None:
    """Return what tells a file's bytes from others; None where there is no such file.

    Parameters
    ----------
    published
        Whether the place publishes checksums: the MD5 beside the file is read then, and is None until it is there.

    Raises
    ------
    FetchError
        If it cannot be read, or the checksum beside the file is none.
    """
    if published:
        return published_md5(url, attempts=attempts, wait=wait)
    try:
        stamp = ask_remote(url, attempts=attempts, wait=wait)
    except FetchError as err:
        if err.__cause__ and is_absent(err.__cause__):
            return None
        raise
    return stamp_identity(stamp.size or 0, stamp.etag or stamp.modified or "")


def md5_in(identity: str) -> str | None:
    """Return the MD5 that an identity is; None for one that the place does not publish."""
    return identity if _MD5.fullmatch(identity) else None


def stamp_identity(size_bytes: int, version: str) -> str:
    """Return the identity of a file without a published MD5: its size, and the ETag or time that the place gives."""
    # A server's header may hold bytes that are no text.
    return ascii(f"{size_bytes} bytes, {version or 'no version'}")[1:-1]


def day_of(name: str) -> str | None:
    """Return the ISO date in the name of a release's VCF; None for any other file."""
    parsed = _parse_name(name)
    return parsed[0] if parsed else None


def _parse_name(name: str) -> tuple[str, str, str] | None:
    """Return ISO date, words behind it and the name itself; None for anything but a release's VCF."""
    match = _RELEASE_FILE.fullmatch(name) if len(name) <= _MAX_NAME else None
    if match is None:
        return None
    try:
        day = date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        return None
    # The plain name sorts first, so that it keeps the plain key.
    return day.isoformat(), match[4], name


class _Deadline:
    """The moment after which nobody waits any more."""

    def __init__(self, within_s: float | None) -> None:
        self._within_s, self._ends = within_s, None if within_s is None else time.monotonic() + within_s

    def wait(self, answers: Iterable[Future[_T]]) -> None:
        """Return when every answer is there, or the time is over."""
        futures.wait(answers, timeout=self._left())

    def result(self, answer: Future[_T], url: str) -> _T:
        """Return an answer; raises :class:`FetchError` if it has not come."""
        try:
            return answer.result(timeout=self._left())
        except TimeoutError as err:
            problem = f"did not answer within the {self._within_s:g} s that were waited"
            raise FetchError(url, problem, remedy="Run it again later") from err

    def _left(self) -> float | None:
        return None if self._ends is None else max(0.0, self._ends - time.monotonic())


@contextmanager
def _readers() -> Iterator[ThreadPoolExecutor]:
    """Lend a pool whose unanswered requests are left behind."""
    pool = ThreadPoolExecutor(_READERS, thread_name_prefix="clinvar-listing")
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _list_names(url: str, attempts: int, wait: wait_base) -> set[str]:
    return _http_names(url, attempts, wait) if url.startswith(("http://", "https://")) else _folder_names(url)


def _http_names(url: str, attempts: int, wait: wait_base) -> set[str]:
    page = read_remote(f"{url.rstrip('/')}/", limit_bytes=_PAGE_LIMIT_BYTES, attempts=attempts, wait=wait)
    if page is None:
        raise FetchError(url, "no such listing", remedy="Check the catalogue's clinvar.listing")
    # Only the last part of a link is taken, and joined to the listing: a page cannot send us elsewhere.
    links = (html.unescape(link) for link in _LINK.findall(page.decode("utf-8", "replace")))
    return _last_parts(map(_path_of, links))


def _path_of(link: str) -> str:
    try:
        return urlsplit(link).path
    except ValueError:  # such as an unclosed bracket where the host belongs
        return ""


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
