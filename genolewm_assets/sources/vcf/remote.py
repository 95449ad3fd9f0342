"""A VCF behind a URL, of which ranges are read; it is never downloaded as a whole.

Apart from local files, whose readers need not import what speaks HTTP.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, cast
from urllib.parse import urlsplit

from genolewm_assets.sources.files import RangeFile, RemoteStamp, ask_remote, read_remote
from genolewm_assets.sources.vcf.index import INDEX_LIMIT_BYTES, INDEX_SUFFIXES, VariantIndex, read_index


@dataclass(frozen=True)
class RemoteVcf:
    """A file behind a URL, read in ranges; every handle reads the version that the first one met."""

    url: str

    @property
    def name(self) -> str:
        """File name."""
        return Path(urlsplit(self.url).path).name

    @property
    def label(self) -> str:
        """The URL."""
        return self.url

    @cached_property
    def stamp(self) -> RemoteStamp:
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
