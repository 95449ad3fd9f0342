"""Releases in a folder of any fsspec URL: objects named by their content, and one index a release, written last.

::

    <url>/blobs/sha256/<2 digits>/<digest>   a content, whichever releases have it
    <url>/releases/<name>.json               the index of a release
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import fsspec

from genolewm_assets.errors import FetchError, GenoLeWMError, MissingResourceError
from genolewm_assets.releases.index import BLOCK_BYTES, ReleaseIndex, choose_name, parse_index
from genolewm_assets.store.artefacts import FileEntry


@contextmanager
def store_errors(url: str) -> Iterator[None]:
    """Turn errors of a storage library into :class:`FetchError`, or :class:`MissingResourceError`."""
    try:
        yield
    except GenoLeWMError:
        raise
    except FileNotFoundError as error:
        problem = f"has no such object ({_first_line(error)})"
        raise MissingResourceError(url, problem, remedy="Correct the URL") from None
    except ImportError as error:
        remedy = "Install it: pip install 'genolewm-assets[cloud]'"
        raise MissingResourceError(url, f"needs a library that is missing ({error.name})", remedy=remedy) from None
    except Exception as error:  # noqa: BLE001 - of whichever library serves the protocol
        # It may quote a signed request, so it is no cause that would be logged.
        problem = f"cannot be read or written ({_first_line(error)})"
        remedy = "Check the URL, the credentials of the store and the network, and run it again"
        raise FetchError(url, problem, remedy=remedy) from None


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


@dataclass(frozen=True, slots=True)
class StorePlace:
    """A folder of releases, by its URL."""

    url: str

    @property
    def filesystem(self) -> Any:
        """File system of the URL, without what it remembers of folders."""
        options = {"auto_mkdir": True} if self.url.startswith(("file://", "local://")) else {}
        found, _ = fsspec.core.url_to_fs(self.url, use_listings_cache=False, **options)
        return found

    @property
    def folder(self) -> str:
        """Path of the folder in the file system."""
        path: str = fsspec.core.url_to_fs(self.url)[1]
        return path.rstrip("/")

    def blob(self, sha256: str) -> str:
        """Return the path of a content."""
        return f"{self.folder}/blobs/sha256/{sha256[:2]}/{sha256}"

    def index_path(self, name: str) -> str:
        """Return the path of the index of a release."""
        return f"{self.folder}/releases/{name}.json"

    def names(self) -> list[str]:
        """Return the names of all releases; errors are those of the storage library."""
        try:
            paths = self.filesystem.ls(f"{self.folder}/releases", detail=False)
        except FileNotFoundError:
            return []
        return [posixpath.basename(path).removesuffix(".json") for path in paths]

    def read_index(self, name: str) -> ReleaseIndex:
        """Return the index of a release; raises as :func:`parse_index`, and what the storage library does."""
        return parse_index(self.filesystem.cat_file(self.index_path(name)), f"{self.url}/releases/{name}.json")

    def find(self, reference: str | None) -> tuple[ReleaseIndex, None]:
        """Return the index of the release that a name, ClinVar release or digest means.

        Raises
        ------
        MissingResourceError, FetchError, CorruptResourceError
            As :func:`store_errors`, :func:`choose_name` and :func:`parse_index`.
        """
        with store_errors(self.url):
            return self.read_index(choose_name(self.names(), reference, self.url)), None

    def blocks(self, entry: FileEntry, start: int, commit: str | None = None) -> Iterator[bytes]:  # noqa: ARG002
        """Yield a content from a byte on; raises as :func:`store_errors`."""
        with (
            store_errors(f"{self.url}: {entry.path}"),
            self.filesystem.open(self.blob(entry.sha256), "rb") as file,
        ):
            file.seek(start)
            while block := file.read(BLOCK_BYTES):
                yield block
