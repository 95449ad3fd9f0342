"""A source file named by a catalogue: identity of its content, and access to it as a local file.

Local files are read in place. Remote files are downloaded first, into a folder that keeps interrupted downloads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from genolewm_assets.errors import printable
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.sources.files.digests import Digests, ReadDigests
from genolewm_assets.sources.files.fetch import fetch, published_md5
from genolewm_assets.sources.files.local import SCHEME, check_local_file
from genolewm_assets.sources.files.remote import RemoteStamp, ask_remote, read_stamp
from genolewm_assets.store.artefacts import Check, CheckResult, stating_compared

#: Value of a catalogue's ``md5`` key that means: read the MD5 from the ``.md5`` file beside the source.
PUBLISHED = "published"
_PIECE_BYTES = 1 << 20

CHECKSUM_MATCHES = Check(
    "checksum_matches_published",
    "Every downloaded source file has the MD5 that its publisher or the catalogue states, if one is stated.",
    "The download is broken, or the publisher replaced the file: materialise again to fetch it anew. If the publisher "
    "states another MD5 now, write that one in the catalogue.",
)


@dataclass(frozen=True, slots=True)
class LocalCopy:
    """A source as a local file, or one that was streamed."""

    #: Path of the file; of one that was streamed its name.
    path: Path
    #: MD5 of the file, lower-case hex.
    md5: str
    #: MD5 that the catalogue pins or the publisher states, hex; None if there is none.
    expected_md5: str | None

    def checksum_check(self) -> CheckResult:
        """Compare the file's MD5 with the expected one; states that nothing was compared if there is none."""
        figures = {"md5": self.md5, "published_md5": self.expected_md5 or "none"}
        rows = [{"file": self.path.name, "expected": self.expected_md5, "got": self.md5}]
        check = CheckResult(CHECKSUM_MATCHES, self.expected_md5 in (None, self.md5), figures, rows)
        nothing = "neither the catalogue nor the publisher states an MD5"
        return stating_compared(check, int(self.expected_md5 is not None), nothing, declared=True)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A source file that a catalogue names.

    Attributes
    ----------
    url
        Local path, or URL of any protocol that fsspec knows; text without ``scheme://`` is a path.
    md5
        The pinned MD5 (hex), :data:`PUBLISHED` for the ``.md5`` file beside the source, or None.
    downloads
        Folder for the downloads of remote files, finished or not.
    digests
        How the MD5 of a local file is found for :meth:`identity`.
    """

    url: str
    md5: str | None
    downloads: Path
    progress: Progress = NO_PROGRESS
    digests: Digests = field(default_factory=ReadDigests)

    @property
    def name(self) -> str:
        """Name of the file, without its folder."""
        return self._path.name

    def identity(self) -> dict[str, str | int]:
        """Return the identity of the content, for recipes and cache keys.

        Returns
        -------
        dict
            ``file`` (name) and ``md5``; for a remote file without an expected MD5 ``file``, ``size_bytes`` and
            ``version`` (ETag, else date). For a local file also ``expected_md5`` if there is one, because the outcome
            of the checksum check depends on it.

        Raises
        ------
        InputError, FetchError
            If a local file is missing or not a regular file, or the server has no such file or cannot be reached.
        """
        if not self.is_remote:
            pin = {"expected_md5": expected} if (expected := self.expected_md5()) else {}
            return {"file": self.name, "md5": self.digests.of(self._local_path(), "md5"), **pin}
        if expected := self.expected_md5():
            return {"file": self.name, "md5": expected}
        return self._stamped(read_stamp(self.url))

    def stated_identity(self) -> dict[str, str | int]:
        """Return an identity from the file's metadata, without reading its content, to detect a possible change.

        It is as :meth:`identity`, but a local file has ``size_bytes`` and ``modified_ns`` (modification time) in place
        of ``md5``.
        """
        expected = self.expected_md5()
        if self.is_remote:
            return {"file": self.name, "md5": expected} if expected else self._stamped(ask_remote(self.url))
        pin = {"expected_md5": expected} if expected else {}
        status = self._local_path().stat()
        return {"file": self.name, "size_bytes": status.st_size, "modified_ns": status.st_mtime_ns, **pin}

    def _stamped(self, stamp: RemoteStamp) -> dict[str, str | int]:
        return {"file": self.name, "size_bytes": stamp.size or 0, "version": stamp.etag or stamp.modified or ""}

    @contextmanager
    def local(self) -> Iterator[LocalCopy]:
        """Provide the source as a local file: the file itself, or a download, which is removed unless the block raises.

        Raises
        ------
        InputError, FetchError
            As :meth:`identity`; :class:`ChecksumError` if the MD5 of the download differs from the expected one.
        """
        if not self.is_remote:
            path = self._local_path()
            yield LocalCopy(path, ReadDigests().of(path, "md5"), self.expected_md5())
            return
        copy = self.copy_to(self.download_folder)
        yield copy
        copy.path.unlink()

    def copy_to(self, folder: Path) -> LocalCopy:
        """Copy or download the source into ``folder``; an interrupted download is resumed; raises as :meth:`local`."""
        target, expected = folder / self.name, self.expected_md5()
        if not self.is_remote:
            return LocalCopy(target, _copy(self._local_path(), target), expected)
        if expected and target.is_file() and ReadDigests().of(target, "md5") == expected:
            return LocalCopy(target, expected, expected)
        part = self.download_folder / f"{self.name}.part"
        return LocalCopy(target, fetch(self.url, target, md5=expected, part=part, progress=self.progress), expected)

    @property
    def download_folder(self) -> Path:
        """Folder in which work on a remote file is kept until it is done."""
        # A new signature is no new file.
        return self.downloads / hashlib.sha256(printable(self.url).encode()).hexdigest()[:12]

    @property
    def is_remote(self) -> bool:
        """Whether the source is a URL with a scheme other than ``file``."""
        scheme = SCHEME.match(self.url)
        return scheme is not None and scheme[1].lower() != "file"

    @property
    def path(self) -> Path | None:
        """Path of a local file, which may be missing; None for a remote file."""
        return None if self.is_remote else self._path

    @property
    def _path(self) -> Path:
        """Path of a local file, or the path component of a remote file's URL."""
        if not SCHEME.match(self.url):
            return Path(self.url)
        path = urlsplit(self.url).path
        return Path(path if self.is_remote else unquote(path))

    def expected_md5(self) -> str | None:
        """Return the MD5 that the catalogue pins or the publisher states, hex; None if there is none."""
        if self.md5 != PUBLISHED:
            return self.md5
        return published_md5(self.url if self.is_remote else str(self._path))

    def _local_path(self) -> Path:
        check_local_file(self._path)
        return self._path


def _copy(path: Path, target: Path) -> str:
    """Copy a file; return the MD5 of the bytes written, hex."""
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as source, target.open("wb") as copy:
        while piece := source.read(_PIECE_BYTES):
            digest.update(piece)
            copy.write(piece)
    return digest.hexdigest()
