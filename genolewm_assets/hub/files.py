"""Files of a data set of the hub at a commit, named by a URL as Hugging Face writes it."""

from __future__ import annotations

import glob
import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from genolewm_assets.errors import ChecksumError, InputError
from genolewm_assets.hub.errors import hub_errors
from genolewm_assets.hub.repository import COMMIT, HubRepository

#: Beginning of the URLs of this module.
HUB_SCHEME = "hf://"

_URL = re.compile(r"hf://datasets/([\w.-]+/[\w.-]+)(?:@([^/]*))?(?:/(.*))?")
_NOTATION = "hf://datasets/OWNER/NAME@COMMIT/PATH"
_WILDCARD = re.compile(r"[*?\[]")
_DIGEST = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of a repository at a commit.

    Attributes
    ----------
    path, size_bytes
        Path in the repository, and size.
    digest
        What the hub states of the content: SHA-256, 64 hexadecimal digits, of a file in large file storage; of any
        other the id of its git blob, 40 digits.
    """

    repository: HubRepository
    path: str
    size_bytes: int
    digest: str

    @property
    def name(self) -> str:
        """Name of the file, without its folder."""
        return PurePosixPath(self.path).name

    @property
    def url(self) -> str:
        """URL of the file, with the commit."""
        return f"hf://datasets/{self.repository.name}@{self.repository.commit}/{self.path}"

    @property
    def place(self) -> str:
        """Path in the hub's cache; the URL if the file is not there."""
        return str(_cached(self.repository, self.path) or self.url)

    def identity(self) -> dict[str, str | int]:
        """Return the identity of the content for recipes: ``file``, ``size_bytes`` and ``sha256`` or ``git_blob``."""
        algorithm = "sha256" if len(self.digest) == 64 else "git_blob"
        return {"file": self.name, "size_bytes": self.size_bytes, algorithm: self.digest}

    def check_readable(self) -> None:
        """Ask the hub, unless its cache has the file, whether it may be downloaded; raises as :func:`hub_errors`."""
        from huggingface_hub import get_hf_file_metadata, hf_hub_url

        at = self.repository
        if _cached(at, self.path) is None:
            with hub_errors(at, self.url, self.path):
                url = hf_hub_url(at.name, self.path, repo_type=at.kind, revision=at.commit)
                get_hf_file_metadata(url, retry_on_errors=True)

    def fetch(self) -> Path:
        """Return the file in the hub's cache, downloaded if it is not there, after its content was compared.

        Raises
        ------
        ChecksumError
            If the content differs from what the hub states.
        InputError, MissingResourceError, FetchError
            As :func:`hub_errors`.
        """
        with hub_errors(self.repository, self.url, self.path):
            path = download_files(self.repository, [glob.escape(self.path)]) / self.path
        _compare(path, self.digest, self.url)
        return path


@dataclass(frozen=True, slots=True)
class HubFiles:
    """A file, a folder (stands for its ``*.parquet``) or a pattern with ``*``, ``**``, ``?`` or ``[`` in a data set."""

    repository: HubRepository
    pattern: str

    @classmethod
    def parse(cls, url: str) -> HubFiles:
        """Parse ``hf://datasets/OWNER/NAME@COMMIT/PATH``.

        Raises
        ------
        InputError
            If the URL is none of a data set, or names no commit.
        """
        match = _URL.fullmatch(url)
        if match is None or ".." in (match[3] or "").split("/"):
            raise InputError(url, "is no URL of a data set of the hub", expected=_NOTATION, got=repr(url))
        repository = HubRepository("dataset", match[1], match[2] or "")
        if not COMMIT.fullmatch(repository.commit):
            raise InputError(
                url,
                "needs the commit of the data set",
                expected=f"{_NOTATION}, COMMIT of 40 hexadecimal digits",
                got=repr(repository.commit),
                remedy=f"Copy the commit hash from {repository.page}/commits/main; a branch or tag may move",
            )
        path = (match[3] or "").strip("/")
        is_file = path.endswith(".parquet") or _WILDCARD.search(path)
        return cls(repository, path if is_file else f"{path}/*.parquet".lstrip("/"))

    @property
    def url(self) -> str:
        """URL of the files, as :meth:`parse` reads it."""
        return f"hf://datasets/{self.repository.name}@{self.repository.commit}/{self.pattern}"

    def find(self, first: int | None = None) -> list[HubFile]:
        """Return the files, sorted by path, or the ``first`` of them; the hub is asked unless its cache has them all.

        Raises
        ------
        InputError, MissingResourceError, FetchError
            As :func:`hub_errors`; InputError too if there is no such file.
        """
        with hub_errors(self.repository, self.url, self.pattern):
            found = self._find_cached(first) or self._ask(first)
        if not found:
            raise InputError(
                self.url,
                "the commit has no such file",
                expected="a Parquet file, a folder of them or a pattern",
                got="nothing",
                remedy=f"Correct the URL; the files are listed at {self.repository.page}/tree/{self.repository.commit}",
            )
        return found

    def _find_cached(self, first: int | None) -> list[HubFile]:
        """Return the files if the hub's cache holds the listing of the commit and all of them, else none."""
        from huggingface_hub import get_cached_repo_tree
        from huggingface_hub.errors import CachedRepoTreeNotFoundError

        at = self.repository
        try:
            tree = get_cached_repo_tree(at.name, repo_type=at.kind, revision=at.commit)
        except CachedRepoTreeNotFoundError:
            return []
        sizes = {entry.path: entry.size for entry in tree}
        paths = self._chosen(sizes, first)
        links = [_cached(at, path) for path in paths]
        stated = [None if link is None else _stated(link) for link in links]
        if None in stated:
            return []
        return [HubFile(at, path, sizes[path], blob or "") for path, blob in zip(paths, stated, strict=True)]

    def _ask(self, first: int | None) -> list[HubFile]:
        from huggingface_hub import HfApi, RepoFile
        from huggingface_hub.errors import RemoteEntryNotFoundError

        at, parts = self.repository, self.pattern.split("/")
        depth = next((n for n, part in enumerate(parts) if _WILDCARD.search(part)), len(parts) - 1)
        folder, recursive = "/".join(parts[:depth]) or None, depth < len(parts) - 1
        try:
            tree = HfApi().list_repo_tree(at.name, folder, recursive=recursive, revision=at.commit, repo_type=at.kind)
            files = {entry.path: entry for entry in tree if isinstance(entry, RepoFile)}
        except RemoteEntryNotFoundError:
            return []
        chosen = [files[path] for path in self._chosen(files, first)]
        return [HubFile(at, file.path, file.size, file.lfs.sha256 if file.lfs else file.blob_id) for file in chosen]

    def _chosen(self, paths: Iterable[str], first: int | None) -> list[str]:
        from fsspec.utils import glob_translate

        matches = re.compile(glob_translate(self.pattern)).match
        return sorted(path for path in paths if matches(path))[:first]


def check_cached(path: Path, where: str) -> None:
    """Compare a file with what the hub states of it, if it is in the hub's cache; others are passed over.

    ``where`` names the file in the message; raises :class:`ChecksumError` if its content differs.
    """
    if (stated := _stated(path)) is not None:
        _compare(path, stated, where)


def _stated(path: Path) -> str | None:
    """Return what the hub states of a file of its cache: a link in the folder of the commit to the blob so named."""
    name = path.readlink().name if path.is_symlink() else ""
    return name if _DIGEST.fullmatch(name) else None


def _compare(path: Path, stated: str, where: str) -> None:
    got = content_digest(path, stated)
    if got != stated:
        raise ChecksumError(
            str(path.resolve()),
            f"differs from what the hub states of {where}",
            expected=stated,
            got=got,
            remedy="Delete this file and run it again, which downloads it again",
        )


def _cached(repository: HubRepository, path: str) -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(repository.name, path, revision=repository.commit, repo_type=repository.kind)
    return Path(found) if isinstance(found, str) else None


def download_files(repository: HubRepository, patterns: Sequence[str]) -> Path:
    """Download files of patterns, with the listing of the commit; return the folder of the commit in the hub's cache.

    With the listing the client knows offline which files there are. Its errors are those for :func:`hub_errors`.
    """
    import tenacity
    from huggingface_hub import snapshot_download

    retrying = tenacity.Retrying(
        stop=tenacity.stop_after_attempt(_ATTEMPTS),
        wait=tenacity.wait_exponential(max=60),
        retry=tenacity.retry_if_exception(_is_transient),
        reraise=True,
    )
    at, wanted = repository, list(patterns)
    return Path(retrying(snapshot_download, at.name, repo_type=at.kind, revision=at.commit, allow_patterns=wanted))


def _is_transient(error: BaseException) -> bool:
    """Whether a download failed in a way that the client does not try again: a server error, or a lost connection."""
    from huggingface_hub import errors

    if isinstance(error, errors.HfHubHTTPError):
        return error.response.status_code >= 500
    return isinstance(error, errors.HTTPError)  # type: ignore[attr-defined]


def content_digest(path: Path, like: str) -> str:
    """Return the digest of a file, of the kind of another: SHA-256, or the id of its git blob."""
    size = path.stat().st_size
    digest = hashlib.sha256() if len(like) == 64 else hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: digest).hexdigest()
