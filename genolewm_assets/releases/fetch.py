"""Fetch releases into a cache folder, in which releases share equal files.

::

    <cache>/blobs/sha256/<2 digits>/<digest>        a whole file; <digest>.part the beginning of one
    <cache>/releases/<name>.<digest of the index>/  a release, of hard links to blobs
    <cache>/references/<digest of URL@REFERENCE>    what a reference meant that always means the same

``<cache>`` is ``packages`` in the cache folder of the user (``GENOLEWM_CACHE``, by default ``~/.cache/genolewm``).
"""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from genolewm_assets.errors import ChecksumError
from genolewm_assets.hub import COMMIT
from genolewm_assets.own_caches import cache_folder
from genolewm_assets.progress import NO_PROGRESS, ByteCount, Progress
from genolewm_assets.releases.hub_place import HubPlace
from genolewm_assets.releases.index import BLOCK_BYTES, PACKAGE, ReleaseIndex, choose_name, is_pinned
from genolewm_assets.releases.places import open_place
from genolewm_assets.releases.store_place import StorePlace
from genolewm_assets.store.artefacts import FileEntry
from genolewm_assets.store.files import (
    canonical_json,
    measure_file,
    read_document,
    remove_tree,
    sync_directory,
    sync_tree,
    write_atomic,
)
from genolewm_assets.store.locks import guarded

#: Files that are downloaded at once, and seconds that a process waits for another one that fetches.
_AT_ONCE, _WAIT_S = 4, 86_400.0


@dataclass(frozen=True, slots=True)
class Fetched:
    """A release on this machine: a root, with the audit and, if they were fetched, the state caches."""

    folder: Path

    @property
    def package(self) -> Path:
        """Folder of the package."""
        return self.folder / PACKAGE


def fetch_release(
    url: str,
    *,
    reference: str | None = None,
    into: Path | None = None,
    states: bool = True,
    progress: Progress = NO_PROGRESS,
) -> Fetched:
    """Bring a release to this machine, and compare every byte of it with its index.

    What was downloaded by a killed run, or for another release, is not downloaded again.

    Parameters
    ----------
    url
        ``hf://datasets/OWNER/NAME`` or a folder of any fsspec URL, with ``@REFERENCE`` after it if one is meant.
    reference
        Name or digest of a release, its ClinVar release, or a tag, branch or commit of the hub; None: that of the URL,
        else the newest release.
    into
        Cache folder; None: that of the user.
    states
        Also fetch the state caches.

    Raises
    ------
    InputError
        If the URL or the revision names no release.
    MissingResourceError, FetchError
        If there is no such release, or it cannot be read: another attempt goes on where this one ended.
    ChecksumError, CorruptResourceError
        If a file or the index differs from what was published.
    """
    place, of_url = open_place(url)
    wanted, cache = reference or of_url, into or _cache()
    index, commit = place.find(wanted)
    if wanted is not None and is_pinned(wanted) and not COMMIT.fullmatch(wanted):
        choose_name([index.name], wanted, url)  # raises if a tag of this name is of another package
    if not states:
        index = index.without_states()
    fetched = Fetched(cache / "releases" / f"{index.name}.{index.digest[:12]}")
    fetched.folder.parent.mkdir(parents=True, exist_ok=True)
    with guarded(cache / "lock", _WAIT_S):
        contents = index.contents.values()
        total = sum(entry.size_bytes for entry in contents)
        blobs = _Blobs(cache, place, commit, ByteCount(progress, total, "bytes fetched or compared"))
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(blobs.fetch, contents))
        _link(blobs, index, fetched.folder)
    for name in {index.name, index.manifest_sha256, index.name[-12:], *filter(None, (commit,))}:
        _remember(cache, f"{place.url}@{name}", fetched, states=states)
    return fetched


def open_fetched(url: str, *, states: bool = True) -> Fetched:
    """Return a release that was fetched, by a URL whose reference always means the same, or else fetch it.

    Such a reference is a commit, a name or a digest, and nothing is asked. Errors are those of :func:`fetch_release`.
    """
    place, reference = open_place(url)
    if reference is not None and is_pinned(reference):
        for with_states in {True, states}:
            path = _reference_path(_cache(), f"{place.url}@{reference}", states=with_states)
            name = read_document(path, remedy=f"Delete {path}") if path.is_file() else ""
            if name and (folder := _cache() / "releases" / Path(str(name)).name).is_dir():
                return Fetched(folder)
    return fetch_release(url, states=states)


def _cache() -> Path:
    return cache_folder() / "packages"


def _reference_path(cache: Path, text: str, *, states: bool) -> Path:
    text = text if states else f"{text} without states"
    return cache / "references" / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"


def _remember(cache: Path, text: str, fetched: Fetched, *, states: bool) -> None:
    path = _reference_path(cache, text, states=states)
    path.parent.mkdir(exist_ok=True)
    write_atomic(path, canonical_json(fetched.folder.name, str(path)))


@dataclass(frozen=True, slots=True)
class _Blobs:
    """Files of a cache folder, and the place from which missing ones come."""

    cache: Path
    place: HubPlace | StorePlace
    commit: str | None
    count: ByteCount

    def path(self, sha256: str) -> Path:
        return self.cache / "blobs" / "sha256" / sha256[:2] / sha256

    def fetch(self, entry: FileEntry) -> None:
        """Download a file unless it is there undamaged; a download that was broken off goes on."""
        path = self.path(entry.sha256)
        if path.is_file() and measure_file(path, self.count).sha256 == entry.sha256:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.part")
        if (found := self._download(entry, part)) != entry.sha256:
            part.unlink()
            raise ChecksumError(
                f"{self.place.url}: {entry.path}",
                "what arrived is not what was published",
                expected=f"{entry.size_bytes} bytes, sha256 {entry.sha256}",
                got=f"sha256 {found}",
                remedy="Fetch it again, which downloads this file again; if that fails, publish the release again",
            )
        # Releases share it, so that nobody writes it by mistake.
        part.chmod(0o444)
        part.replace(path)

    def _download(self, entry: FileEntry, part: Path) -> str:
        """Append what is missing to the beginning of a file, and return the digest of it all."""
        digest = hashlib.sha256()
        with part.open("a+b") as file:
            file.seek(0)
            while block := file.read(BLOCK_BYTES):
                digest.update(block)
                self.count.add(len(block))
            if file.tell() < entry.size_bytes:
                for block in self.place.blocks(entry, file.tell(), self.commit):
                    file.write(block)
                    digest.update(block)
                    self.count.add(len(block))
                    if file.tell() > entry.size_bytes:  # not what was published, and perhaps without an end
                        break
            file.flush()
            os.fsync(file.fileno())
        return digest.hexdigest()


def _link(blobs: _Blobs, index: ReleaseIndex, folder: Path) -> None:
    """Publish the folder of a release, of links to blobs; one that has them all is left as it is."""
    for scratch in folder.parent.glob(".*.tmp"):  # of killed runs: this one holds the lock
        remove_tree(scratch)
    pairs = [(entry.path, blobs.path(entry.sha256)) for entry in index.files]
    if all((folder / path).is_file() and (folder / path).samefile(blob) for path, blob in pairs):
        return
    scratch = folder.with_name(f".{folder.name}.tmp")
    for path, blob in pairs:
        (scratch / path).parent.mkdir(parents=True, exist_ok=True)
        (scratch / path).hardlink_to(blob)
    sync_tree(scratch)
    if folder.exists():
        folder.replace(folder.with_name(f".{folder.name}.old.tmp"))
    scratch.replace(folder)
    remove_tree(folder.with_name(f".{folder.name}.old.tmp"))
    sync_directory(folder.parent)
