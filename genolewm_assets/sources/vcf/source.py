"""Where a VCF is read from: a local file, or, in :mod:`~genolewm_assets.sources.vcf.remote`, ranges of a remote one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from genolewm_assets.errors import VcfError
from genolewm_assets.sources.files import check_local_file
from genolewm_assets.sources.vcf.index import VariantIndex, find_index, read_index


class VcfSource(Protocol):
    """A VCF that can be opened, any number of times, and the index beside it."""

    @property
    def name(self) -> str:
        """File name, for the rows of ``rejects.parquet``."""

    @property
    def label(self) -> str:
        """What errors call the file."""

    def open(self) -> tuple[BinaryIO, int]:
        """Return the file opened at its start, and its size in bytes."""

    def index(self) -> VariantIndex | None:
        """Return the index beside the file, None where there is none."""


@dataclass(frozen=True)
class LocalVcf:
    """A file on this machine; ``label`` is what errors call it, by default its path."""

    path: Path
    label: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.label or str(self.path))

    @property
    def name(self) -> str:
        """File name."""
        return self.path.name

    def open(self) -> tuple[BinaryIO, int]:
        """Open the file.

        Raises
        ------
        VcfError
            If it is missing, no regular file, not readable or empty.
        """
        size = check_local_file(self.path, expected="a VCF file", error=VcfError)
        if not size:
            raise VcfError(self.label, "the file is empty", remedy="Fetch the file again")
        return self.path.open("rb"), size

    def index(self) -> VariantIndex | None:
        """Return the ``.tbi`` or ``.csi`` beside the file."""
        found = find_index(self.path)
        return None if found is None else read_index(found, where=str(found))
