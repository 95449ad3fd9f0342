"""Open a remote file as a stream of bytes from any offset, for every protocol that fsspec knows.

HTTP requests use fsspec's session and not its file objects, because the file objects take a whole body for the
requested range and do not notice that a file changed between two ranges. Other protocols use fsspec's file objects.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import fsspec
import fsspec.asyn
import tenacity
from tenacity.stop import stop_base
from tenacity.wait import wait_base

from genolewm_assets.errors import FetchError, GenoLeWMError, printable

if TYPE_CHECKING:
    # Imported where it is used: most processes that import this module download nothing.
    import aiohttp

BACK_OFF: wait_base = tenacity.wait_exponential(multiplier=1, max=60)
ATTEMPTS = 5
#: Longest pause that a server may ask for, in seconds.
_MOST_PAUSE_S = 600.0
#: Seconds without a connection, and without a byte, after which a request has failed.
_CONNECT_S, _SILENCE_S = 30.0, 60.0
#: Seconds after which a read from a slow server returns what has arrived.
_PORTION_S = 0.5

_TRANSIENT_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
_ABSENT_STATUS = frozenset({401, 403, 404, 410})
#: Status of a HEAD after which GET is tried: the server has no HEAD, or its signed URL is valid for GET only.
_NO_HEAD_STATUS = frozenset({400, 403, 405, 501})
_BLOCK_BYTES = 8 << 20
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")


@dataclass(frozen=True, slots=True)
class RemoteStamp:
    """What a server states about the version of a file; a field that it does not state is None.

    Attributes
    ----------
    size
        Size in bytes.
    etag, modified
        ETag and date of the last change, as the server sent them.
    """

    size: int | None = None
    etag: str | None = None
    modified: str | None = None

    @property
    def identifies(self) -> bool:
        """Whether equal stamps mean equal content: an ETag or a date is known. Size alone is not enough."""
        return self.etag is not None or self.modified is not None


@dataclass(frozen=True, slots=True)
class Body:
    """An open remote file; ``read(n)`` returns the next bytes, at most ``n``, and ``b""`` at the end."""

    stamp: RemoteStamp
    start: int
    read: Callable[[int], bytes]


class HttpStatusError(OSError):
    """An HTTP response whose status is an error: its code, and the seconds after which it asks to be asked again."""

    def __init__(self, status: int, reason: str, pause_s: float | None = None) -> None:
        super().__init__(f"HTTP {status} {reason}".strip())
        self.status, self.pause_s = status, pause_s

    @classmethod
    def of(cls, response: aiohttp.ClientResponse) -> HttpStatusError:
        """Return the error of a response."""
        return cls(response.status, response.reason or "", _pause_s(response.headers.get("Retry-After", "")))


class RemoteChangedError(OSError):
    """The remote file is another version than the one whose first bytes were read."""


@contextmanager
def open_remote(url: str, *, start: int = 0, stamp: RemoteStamp | None = None) -> Iterator[Body]:
    """Open a remote (or local) file at an offset, or at 0 without ranges or if it is not the version of ``stamp``."""
    opener = _open_http if url.startswith(("http://", "https://")) else _open_other
    with opener(url, start, stamp or RemoteStamp()) as body:
        if body.start and body.stamp != stamp:
            raise RemoteChangedError(f"the file on the server changed from {stamp} to {body.stamp}")
        yield body


def read_remote(url: str, *, limit_bytes: int, attempts: int = ATTEMPTS, wait: wait_base = BACK_OFF) -> bytes | None:
    """Return the content of a small file; None if it does not exist (HTTP 401, 403, 404, 410, or file not found).

    Parameters
    ----------
    attempts, wait
        Number of attempts in case of transient failures, and the pause between them.

    Raises
    ------
    FetchError
        If the file is larger than ``limit_bytes``, or all attempts fail.
    """

    def read() -> bytes:
        content = b""
        with open_remote(url) as body:
            while len(content) <= limit_bytes and (chunk := body.read(limit_bytes + 1)):
                content += chunk
        if len(content) <= limit_bytes and body.stamp.size not in (None, len(content)):
            raise ConnectionError(f"{len(content):,} of {body.stamp.size:,} bytes arrived")
        return content

    try:
        content = retrying(attempts, wait)(read)
    except Exception as error:
        if is_absent(error):
            return None
        raise fetch_error(url, error) from error
    if len(content) > limit_bytes:
        raise FetchError(url, "file is too large", expected=f"at most {limit_bytes:,} bytes", got="more")
    return content


def ask_remote(url: str, *, attempts: int = ATTEMPTS, wait: wait_base = BACK_OFF) -> RemoteStamp:
    """Return the stamp of a remote file without downloading it (HTTP: by HEAD, else by a GET of one byte).

    Raises
    ------
    FetchError
        If the file does not exist, or all attempts fail.
    """
    try:
        return retrying(attempts, wait)(_ask_http if url.startswith(("http://", "https://")) else _ask_other, url)
    except Exception as error:
        raise fetch_error(url, error) from error


def read_stamp(url: str) -> RemoteStamp:
    """Return the stamp of a remote file as a download of it would see it, by opening it."""

    def read() -> RemoteStamp:
        with open_remote(url) as body:
            return body.stamp

    try:
        return retrying(ATTEMPTS, BACK_OFF)(read)
    except Exception as error:
        raise fetch_error(url, error) from error


def retrying(stop: int | stop_base, wait: wait_base) -> tenacity.Retrying:
    """Return a tenacity retrier: it calls a function again after transient failures and raises the last error.

    ``stop`` is the number of attempts, or a stop condition. A pause above 0 that the server asks for replaces ``wait``.
    """

    def pause(state: tenacity.RetryCallState) -> float:
        error = None if state.outcome is None else state.outcome.exception()
        asked = error.pause_s if isinstance(error, HttpStatusError) else None
        return min(asked, _MOST_PAUSE_S) if asked else wait(state)

    return tenacity.Retrying(
        stop=tenacity.stop_after_attempt(stop) if isinstance(stop, int) else stop,
        wait=pause,
        retry=tenacity.retry_if_exception(is_transient),
        reraise=True,
    )


def _pause_s(text: str) -> float | None:
    """Return the seconds that a ``Retry-After`` states, as a number or a date (RFC 9110, section 10.2.3), or None."""
    if re.fullmatch(r"[0-9]{1,9}", text):
        return float(text)
    try:
        until = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, (until.replace(tzinfo=until.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def is_absent(error: BaseException) -> bool:
    """Return whether an error means that the file does not exist.

    HTTP 401, 403, 404 and 410 do; stores without a public listing answer 403 for a missing file.
    """
    return isinstance(error, FileNotFoundError) or (
        isinstance(error, HttpStatusError) and error.status in _ABSENT_STATUS
    )


def is_transient(error: BaseException) -> bool:
    """Return whether the request that raised an error may succeed later."""
    if isinstance(error, HttpStatusError):
        return error.status in _TRANSIENT_STATUS
    if isinstance(error, GenoLeWMError | FileNotFoundError | PermissionError | IsADirectoryError | NotADirectoryError):
        return False
    import aiohttp

    if isinstance(error, aiohttp.ClientSSLError):
        return False
    return isinstance(error, OSError | EOFError | aiohttp.ClientPayloadError | aiohttp.ClientConnectionError)


def fetch_error(url: str, error: BaseException, *, got: str | None = None) -> FetchError:
    """Return a :class:`FetchError` that says why a download failed, unless ``error`` is one already.

    Parameters
    ----------
    got
        How much arrived, for the message.
    """
    if isinstance(error, FetchError):
        return error
    # It is logged as the cause.
    error.args = tuple(printable(each) if isinstance(each, str) else each for each in error.args)
    if is_absent(error):
        return FetchError(url, "does not exist", got=got, remedy="Check the URL and the permission to read it")
    if isinstance(error, ImportError):
        return FetchError(url, f"needs a package that is not installed ({error})", remedy="Install the extra 'cloud'")
    detail = str(error) or type(error).__name__
    remedy = "Run it again later" if is_transient(error) else "Check the URL"
    return FetchError(url, f"download failed ({detail})", got=got, remedy=remedy)


@contextmanager
def _open_http(url: str, start: int, stamp: RemoteStamp) -> Iterator[Body]:
    filesystem = _http_filesystem()
    response = fsspec.asyn.sync(filesystem.loop, _request, filesystem, "GET", url, _headers(start, stamp))
    try:
        if response.status == 416:
            raise RemoteChangedError(f"the file on the server is now too short to have byte {start:,}")
        if response.status not in (200, 206):
            raise HttpStatusError.of(response)
        found, begins = _stamp_of(response), _range_start(response)
        if begins not in (0, start):
            raise ConnectionError(f"the server sent the range from byte {begins:,} instead of {start:,}")
        yield Body(found, begins, lambda n: fsspec.asyn.sync(filesystem.loop, _take, response, n))
    finally:
        filesystem.loop.call_soon_threadsafe(response.close)


def _ask_http(url: str) -> RemoteStamp:
    filesystem = _http_filesystem()
    headers = {"Accept-Encoding": "identity"}
    response = fsspec.asyn.sync(filesystem.loop, _request, filesystem, "HEAD", url, headers)
    if response.status in _NO_HEAD_STATUS:
        # Request one byte; if the server ignores ranges, only the header of its response is read.
        headers["Range"] = "bytes=0-0"
        response = fsspec.asyn.sync(filesystem.loop, _request, filesystem, "GET", url, headers)
    filesystem.loop.call_soon_threadsafe(response.close)
    if response.status not in (200, 206):
        raise HttpStatusError.of(response)
    return _stamp_of(response)


def _http_filesystem() -> Any:
    import aiohttp

    return fsspec.filesystem(
        "http",
        client_kwargs={
            "timeout": aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_SILENCE_S),
            "trust_env": True,  # use the proxies that the environment names, as other download tools do
            "auto_decompress": False,  # keep a .gz that is served with Content-Encoding compressed
        },
    )


def _headers(start: int, stamp: RemoteStamp) -> dict[str, str]:
    headers = {"Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
        # RFC 9110, section 13.1.5: If-Range takes no weak validator. open_remote compares the stamps in any case.
        validator = stamp.modified if (stamp.etag or "W/").startswith("W/") else stamp.etag
        if validator:
            headers["If-Range"] = validator
    return headers


async def _request(filesystem: Any, method: str, url: str, headers: dict[str, str]) -> aiohttp.ClientResponse:
    session: aiohttp.ClientSession = await filesystem.set_session()
    return await session.request(method, filesystem.encode_url(url), headers=headers, allow_redirects=True)


async def _take(response: aiohttp.ClientResponse, n: int) -> bytes:
    """Read up to ``n`` bytes, of a slow server those of half a second.

    On a failure return the bytes that arrived before it, and raise at the next call.
    """
    import aiohttp

    parts: list[bytes] = []
    clock = asyncio.get_running_loop().time
    late = clock() + _PORTION_S
    try:
        while n > 0 and not (parts and clock() > late) and (part := await response.content.read(n)):
            parts.append(part)
            n -= len(part)
    except (OSError, aiohttp.ClientError):
        if not parts:
            raise
    return b"".join(parts)


def _stamp_of(response: aiohttp.ClientResponse) -> RemoteStamp:
    return RemoteStamp(_file_size(response), response.headers.get("ETag"), response.headers.get("Last-Modified"))


def _range_start(response: aiohttp.ClientResponse) -> int:
    """Return the offset in the file of the response's first byte; 0 for a full body."""
    match = _CONTENT_RANGE.match(response.headers.get("Content-Range", ""))
    return int(match[1]) if response.status == 206 and match else 0


def _file_size(response: aiohttp.ClientResponse) -> int | None:
    """Return the size of the whole file in bytes; None if the response does not state it."""
    if response.status == 206:
        match = _CONTENT_RANGE.match(response.headers.get("Content-Range", ""))
        return int(match[2]) if match and match[2] != "*" else None
    length = response.headers.get("Content-Length", "")
    return int(length) if length.isdigit() else None


@contextmanager
def _open_other(url: str, start: int, stamp: RemoteStamp) -> Iterator[Body]:
    filesystem, path = fsspec.core.url_to_fs(url)
    found = _stamp_at(filesystem, path)
    with filesystem.open(path, "rb", block_size=_BLOCK_BYTES, cache_type="none") as file:
        begins = start if found == stamp else 0
        file.seek(begins)
        yield Body(found, begins, lambda n: file.read(min(n, _BLOCK_BYTES)))


def _ask_other(url: str) -> RemoteStamp:
    return _stamp_at(*fsspec.core.url_to_fs(url))


def _stamp_at(filesystem: Any, path: str) -> RemoteStamp:
    filesystem.invalidate_cache()
    info = filesystem.info(path)
    if info["type"] == "directory":
        raise IsADirectoryError(f"{path} is a folder")
    etag = info.get("ETag") or info.get("etag")
    modified = next((str(info[key]) for key in ("LastModified", "updated", "mtime", "created") if key in info), None)
    return RemoteStamp(info.get("size"), etag, modified)
