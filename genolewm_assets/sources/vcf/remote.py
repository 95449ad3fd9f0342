"""Access to a remote VCF by byte ranges, without downloading the whole file.

Separate from :mod:`~genolewm_assets.sources.vcf.source`, so that readers of local files import no HTTP library.
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
    """A remote VCF file, read by ranges; all handles read the version that the first one opened."""

    url: str

    @property
    def name(self) -> str:
        """File name."""
        return Path(urlsplit(self.url).path).name

    @property
    def label(self) -> str:
        """Name of the file in errors: its URL."""
        return self.url

    @cached_property
    def stamp(self) -> RemoteStamp:
        """Stamp of the file at the first request; all handles read this version."""
        return ask_remote(self.url)

    def open(self) -> tuple[BinaryIO, int]:
        """Open the file at its start; return it and its size in bytes; raises as :class:`RangeFile`."""
        file = RangeFile(self.url, stamp=self.stamp)
        return cast("BinaryIO", file), file.size

    def index(self) -> VariantIndex | None:
        """Read the ``.tbi`` or ``.csi`` file beside the VCF; None if there is neither.

        Raises
        ------
        FetchError, VcfError
            If the index cannot be downloaded, is damaged or not the index of a VCF text file.
        """
        for suffix in INDEX_SUFFIXES:
            content = read_remote(self.url + suffix, limit_bytes=INDEX_LIMIT_BYTES)
            if content is not None:
                return read_index(content, where=self.url + suffix)
        return None
