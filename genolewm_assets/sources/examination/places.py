"""Look at one file or URL: that it exists, and that its digest is published."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from genolewm_assets.errors import ChecksumError, MissingResourceError
from genolewm_assets.sources.examination.finding import Answers
from genolewm_assets.sources.files import PUBLISHED, SourceFile, ask_remote, check_local_file, published_md5

#: Largest file that is read in full, in bytes.
READ_LIMIT_BYTES = 8 << 20
#: Number of attempts to reach a server.
ATTEMPTS = 2


def local_path(url: str) -> Path | None:
    """Return the path of a local file, which may be missing; None for the URL of a server."""
    return SourceFile(url, None, downloads=Path()).path


def look_at_url(url: str) -> Answers:
    """Ask the server for the size of a remote file; a local file must be readable."""
    path = local_path(url)
    if path is None:
        ask_remote(url, attempts=ATTEMPTS)
    else:
        check_local_file(path)
    yield from ()


def look_into(look: Callable[[Path], Answers]) -> Callable[[str], Answers]:
    """Return a look at a file that reads a local one with ``look`` and asks the server for a remote one."""

    def look_at_either(url: str) -> Answers:
        path = local_path(url)
        yield from look_at_url(url)
        if path is not None:
            yield from look(path)

    return look_at_either


def look_at_digest(md5: str, url: str) -> Answers:
    """Look at the MD5 of a file: that it is published, and of a small local file that it is right."""
    path = local_path(url)
    place = url if path is None else str(path)
    expected = published_md5(place, attempts=ATTEMPTS) if md5 == PUBLISHED else md5
    if expected is None:
        yield MissingResourceError(
            f"{place}.md5",
            "does not exist",
            expected="the published MD5",
            remedy="Fetch it, state the MD5 itself, or leave md5 out",
        )
    elif path is not None and path.is_file() and path.stat().st_size <= READ_LIMIT_BYTES:
        got = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
        if got != expected:
            yield ChecksumError(place, "MD5 differs", expected=expected, got=got, remedy="Fetch the file again")
