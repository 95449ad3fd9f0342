"""Where a VCF is read from: a local file, or ranges of a remote one that is never downloaded as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, Protocol, cast
from urllib.parse import urlsplit

from genolewm_assets.errors import VcfError
from genolewm_assets.sources.local_file import check_local_file
from genolewm_assets.sources.range_file import RangeFile
from genolewm_assets.sources.remote import Stamp, ask_remote, read_remote
from genolewm_assets.sources.variant_index import (
    INDEX_LIMIT_BYTES,
    INDEX_SUFFIXES,
    VariantIndex,
    find_index,
    read_index,
)


class VcfSource(Protocol):
    """A VCF that can be opened, any number of times, and the index beside it."""

    @property
    def name(self) -> str:
        """File name, for the rows of ``rejects.parquet``."""

    @property
    def named(self) -> str:
        """What errors call the file."""

    def open(self) -> tuple[BinaryIO, int]:
        """Return the file opened at its start, and its size in bytes."""

    def index(self) -> VariantIndex | None:
        """Return the index beside the file, None where there is none."""


@dataclass(frozen=True)
class LocalVcf:
    """A file on this machine; ``label`` is what errors call it, None: its path."""

    path: Path
    label: str | None = None

    @property
    def name(self) -> str:
        """File name."""
        return self.path.name

    @property
    def named(self) -> str:
        """What errors call the file."""
        return self.label or str(self.path)

    def open(self) -> tuple[BinaryIO, int]:
        """Open the file.

        Raises
        ------
        VcfError
            If it is missing, no regular file, not readable or empty.
        """
        size = check_local_file(self.path, expected="a VCF file", error=VcfError)
        if not size:
            raise VcfError(self.named, "the file is empty", remedy="Fetch the file again")
        return self.path.open("rb"), size

    def index(self) -> VariantIndex | None:
        """Return the ``.tbi`` or ``.csi`` beside the file."""
        found = find_index(self.path)
        return None if found is None else read_index(found, where=str(found))


@dataclass(frozen=True)
class RemoteVcf:
    """A file behind a URL, read in ranges; every handle reads the version that the first one met."""

    url: str

    @property
    def name(self) -> str:
        """File name."""
        return Path(urlsplit(self.url).path).name

    @property
    def named(self) -> str:
        """The URL."""
        return self.url

    @cached_property
    def stamp(self) -> Stamp:
        """What the server said of the file when it was first asked."""
        return ask_remote(self.url)

    def open(self) -> tuple[BinaryIO, int]:
        """Open the file.

        Raises
        ------
        FetchError
            If it cannot be read, or is another than before.
        """
        file = RangeFile(self.url, stamp=self.stamp)
        return cast("BinaryIO", file), file.size

    def index(self) -> VariantIndex | None:
        """Return the ``.tbi`` or ``.csi`` beside the file."""
        for suffix in INDEX_SUFFIXES:
            content = read_remote(self.url + suffix, limit_bytes=INDEX_LIMIT_BYTES)
            if content is not None:
                return read_index(content, where=self.url + suffix)
        return None
