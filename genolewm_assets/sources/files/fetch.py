"""Downloads: resumed by range, verified before they are there under their name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import tenacity
from tenacity.wait import wait_base

from genolewm_assets.errors import ChecksumError, FetchError
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.sources.files.partial import PartialFile
from genolewm_assets.sources.files.remote import (
    ATTEMPTS,
    BACK_OFF,
    RemoteChangedError,
    fetch_error,
    is_transient,
    open_remote,
    read_remote,
)

_CHUNK_BYTES = 1 << 20
_MD5_FILE_LIMIT_BYTES = 1 << 20
_GNU_LINE = re.compile(r"([0-9a-fA-F]{32})(?:\s+\*?(.+))?")
_BSD_LINE = re.compile(r"MD5 \((.+)\) = ([0-9a-fA-F]{32})")


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was downloaded: digests are of the file as it is on disk, in hex; ``etag`` as the server gave it."""

    url: str
    size_bytes: int
    md5: str
    sha256: str
    etag: str | None


def fetch(
    url: str,
    target: Path,
    *,
    md5: str | None = None,
    sha256: str | None = None,
    part: Path | None = None,
    progress: Progress = NO_PROGRESS,
    attempts: int = ATTEMPTS,
    wait: wait_base = BACK_OFF,
) -> Receipt:
    """Download a file.

    Parameters
    ----------
    url
        Path or URL: file, http(s), s3, gs, or anything else that fsspec knows.
    target
        Where the file appears, complete and verified, in one rename; replaced if it exists.
    md5, sha256
        Expected digests in hex.
    part
        Where the unfinished download lives, on the file system of ``target``; default ``<target>.part``. A later call
        with the same one goes on from it, provided that the remote file has not changed since.
    attempts
        Failures in a row, without a byte more than before, after which to give up.
    wait
        Pause between attempts.

    Raises
    ------
    FetchError
        If the file is not there, or the attempts are used up (the part stays and is resumed next time), or the disk
        does not take it.
    ChecksumError
        If a digest differs; the part is removed.
    BusyError
        If another process is downloading to the same part.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    wanted = {"md5": md5, "sha256": sha256}
    with PartialFile.open(part or target.with_name(f"{target.name}.part"), url=url) as partial:
        resumed = partial.done > 0
        _complete(partial, attempts=attempts, wait=wait, verified_later=bool(md5 or sha256), progress=progress)
        if resumed and _differing(partial, wanted):
            # The first bytes came from an earlier run; only a whole new download tells whose fault it is.
            partial.restart()
            _complete(partial, attempts=attempts, wait=wait, verified_later=True, progress=progress)
        if algorithm := _differing(partial, wanted):
            got, size = partial.hexdigest(algorithm), partial.done
            partial.discard()
            raise ChecksumError(
                url,
                f"{algorithm.upper()} of the download differs",
                expected=wanted[algorithm],
                got=f"{got} over {size:,} bytes",
                remedy="Fetch it again; if it stays so, the file on the server is not the pinned one",
            )
        partial.publish(target)
        etag = partial.stamp.etag
        return Receipt(url, partial.done, partial.hexdigest("md5"), partial.hexdigest("sha256"), etag)


def published_md5(url: str, *, attempts: int = ATTEMPTS, wait: wait_base = BACK_OFF) -> str | None:
    """Return the MD5 that ``<url>.md5`` states, None where there is no such file.

    Returns
    -------
    str or None
        32 lower-case hex digits.

    Raises
    ------
    FetchError
        If the file is there and states no MD5 of this file, or cannot be read.

    Notes
    -----
    Understood are ``md5sum`` lines, with or without a name, and BSD's ``MD5 (name) = ...``. One line is taken whatever
    its name, since ClinVar's have been written with paths of the machine that made them; of several, the one named
    like the file.
    """
    scheme, host, path, query, fragment = urlsplit(url)
    beside = urlunsplit((scheme, host, f"{path}.md5", query, fragment)) if host else f"{url}.md5"
    content = read_remote(beside, limit_bytes=_MD5_FILE_LIMIT_BYTES, attempts=attempts, wait=wait)
    if content is None:
        return None
    stated: list[tuple[str, str]] = []
    for line in content.decode("utf-8", "replace").splitlines():
        if match := _BSD_LINE.fullmatch(line.strip()):
            stated.append((match[1].rpartition("/")[2], match[2].lower()))
        elif match := _GNU_LINE.fullmatch(line.strip()):
            stated.append(((match[2] or "").rpartition("/")[2], match[1].lower()))
    name = path.rpartition("/")[2]
    digest = stated[0][1] if len(stated) == 1 else dict(stated).get(name)
    if digest is None:
        got = repr(content[:60].decode("utf-8", "replace"))
        raise FetchError(beside, f"states no MD5 of {name!r}", expected="32 hexadecimal digits", got=got)
    return digest


def _complete(
    partial: PartialFile, *, attempts: int, wait: wait_base, verified_later: bool, progress: Progress
) -> None:
    """Download until the part holds the whole file."""
    retrying = tenacity.Retrying(
        stop=_StopWhenStuck(attempts, partial),
        wait=wait,
        retry=tenacity.retry_if_exception(is_transient),
        reraise=True,
    )
    try:
        retrying(_pull, partial, verified_later=verified_later, progress=progress)
    except Exception as error:
        size = partial.stamp.size
        got = f"{partial.done:,} of {size:,} bytes" if size is not None and partial.done else None
        raise fetch_error(partial.url, error, got=got) from error


class _StopWhenStuck:
    """Give up after so many failures in a row none of which got further than any before."""

    def __init__(self, attempts: int, partial: PartialFile) -> None:
        self._attempts, self._partial = attempts, partial
        self._reached, self._failures = partial.done, 0

    def __call__(self, state: tenacity.RetryCallState) -> bool:
        del state  # counts every attempt, also those that got further
        self._failures = 1 if self._partial.done > self._reached else self._failures + 1
        self._reached = max(self._reached, self._partial.done)
        return self._failures >= self._attempts


def _pull(partial: PartialFile, *, verified_later: bool, progress: Progress) -> None:
    """Append what the remote file has beyond the part; an error leaves the part as far as it got."""
    if partial.done and not (partial.stamp.identifies or verified_later):
        partial.restart()
    if partial.done and partial.done == partial.stamp.size:
        return
    try:
        with open_remote(partial.url, start=partial.done, stamp=partial.stamp) as body:
            if body.start != partial.done or not partial.done:
                partial.restart(body.stamp)
            while chunk := body.read(_CHUNK_BYTES):
                partial.append(chunk)
                progress.advance(partial.done, body.stamp.size, "bytes")
    except RemoteChangedError:
        partial.restart()
        raise
    if partial.stamp.size not in (None, partial.done):
        raise ConnectionError(f"the server sent {partial.done:,} of {partial.stamp.size:,} bytes")


def _differing(partial: PartialFile, wanted: dict[str, str | None]) -> str | None:
    """Name the first algorithm whose expected digest is not the part's."""
    for algorithm, digest in wanted.items():
        if digest is not None and digest.lower() != partial.hexdigest(algorithm):
            return algorithm
    return None
