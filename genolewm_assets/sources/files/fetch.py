"""Download files: interrupted downloads resume by range, and a file gets its final name only after verification."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import tenacity
from tenacity.stop import stop_base
from tenacity.wait import wait_base

from genolewm_assets.errors import ChecksumError, FetchError
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.sources.files.partial import PartialFile, writing
from genolewm_assets.sources.files.remote import (
    ATTEMPTS,
    BACK_OFF,
    RemoteChangedError,
    fetch_error,
    open_remote,
    read_remote,
    retrying,
)

_CHUNK_BYTES = 1 << 20
_MD5_FILE_LIMIT_BYTES = 1 << 20
_GNU_LINE = re.compile(r"([0-9a-fA-F]{32})(?:\s+\*?(.+))?")
_BSD_LINE = re.compile(r"MD5 \((.+)\) = ([0-9a-fA-F]{32})")


def fetch(
    url: str,
    target: Path,
    *,
    md5: str | None = None,
    part: Path | None = None,
    progress: Progress = NO_PROGRESS,
    attempts: int = ATTEMPTS,
    wait: wait_base = BACK_OFF,
) -> str:
    """Download a file to ``target``, compare it with an expected MD5 if there is one, and return its MD5, in hex.

    ``part``, by default ``<target>.part``, is the unfinished download, on the file system of ``target``; a later call
    with the same path resumes it if the remote file has not changed since.
    """
    with writing(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
    wanted = None if md5 is None else md5.lower()
    with PartialFile.open(part or target.with_name(f"{target.name}.part"), url=url) as partial:
        resumed = partial.done > 0
        _complete(partial, attempts=attempts, wait=wait, verified_later=wanted is not None, progress=progress)
        if resumed and wanted not in (None, partial.md5()):
            # The first bytes came from an earlier run: a full download shows whether they or the server's file differ.
            partial.restart()
            _complete(partial, attempts=attempts, wait=wait, verified_later=True, progress=progress)
        got = partial.md5()
        if wanted not in (None, got):
            size = partial.done
            partial.discard()
            raise ChecksumError(
                url,
                "MD5 of the download differs",
                expected=wanted,
                got=f"{got} over {size:,} bytes",
                remedy="Fetch it again; if the digest still differs, the file on the server is not the pinned one",
            )
        partial.publish(target)
        return got


def published_md5(url: str, *, attempts: int = ATTEMPTS, wait: wait_base = BACK_OFF) -> str | None:
    """Return the MD5 that the file ``<url>.md5`` states, lower-case hex; None if that file does not exist.

    Raises
    ------
    FetchError
        If the ``.md5`` file exists but states no MD5 of the file at ``url``, or cannot be read.

    Notes
    -----
    Accepted lines: those of ``md5sum``, with or without a file name, and BSD's ``MD5 (name) = ...``. If one line states
    an MD5, its file name is ignored, because ClinVar has published lines with paths of the machine that made them. If
    several do, the line that names the file at ``url`` counts.
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
    """Download until the part holds the whole file; retry after transient failures."""
    try:
        retrying(_StopWhenStuck(attempts, partial), wait)(
            _pull, partial, verified_later=verified_later, progress=progress
        )
    except Exception as error:
        size = partial.stamp.size
        got = f"{partial.done:,} of {size:,} bytes" if size is not None and partial.done else None
        raise fetch_error(partial.url, error, got=got) from error


class _StopWhenStuck(stop_base):
    """Stop condition for tenacity: ``attempts`` failures in a row, none with more bytes than any attempt before."""

    def __init__(self, attempts: int, partial: PartialFile) -> None:
        self._attempts, self._partial = attempts, partial
        self._reached, self._failures = partial.done, 0

    def __call__(self, state: tenacity.RetryCallState) -> bool:
        del state  # its attempt number includes attempts that received new bytes
        self._failures = 1 if self._partial.done > self._reached else self._failures + 1
        self._reached = max(self._reached, self._partial.done)
        return self._failures >= self._attempts


def _pull(partial: PartialFile, *, verified_later: bool, progress: Progress) -> None:
    """Append the rest of the remote file; a failure keeps the bytes received, a changed remote file empties it."""
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
                progress.advance(partial.done, body.stamp.size, "bytes downloaded")
    except RemoteChangedError:
        partial.restart()
        raise
    if partial.stamp.size not in (None, partial.done):
        raise ConnectionError(f"the server sent {partial.done:,} of {partial.stamp.size:,} bytes")
