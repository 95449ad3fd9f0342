"""Access to a VCF and its index: the protocol, and local files (:mod:`~genolewm_assets.sources.vcf.remote`: URLs)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from genolewm_assets.errors import VcfError
from genolewm_assets.sources.files import check_local_file
from genolewm_assets.sources.vcf.index import VariantIndex, find_index, read_index


class VcfSource(Protocol):
    """A VCF that can be opened any number of times, and the index beside it."""

    @property
    def name(self) -> str:
        """File name, as in the rows of ``rejects.parquet``."""

    @property
    def label(self) -> str:
        """Name of the file in errors."""

    def open(self) -> tuple[BinaryIO, int]:
        """Open the file at its start; return it and its size in bytes."""

    def index(self) -> VariantIndex | None:
        """Read the index beside the file; None if there is none."""


@dataclass(frozen=True)
class LocalVcf:
    """A local VCF file; ``label`` is its name in errors, by default its path."""

    path: Path
    label: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.label or str(self.path))

    @property
    def name(self) -> str:
        """File name."""
        return self.path.name

    def open(self) -> tuple[BinaryIO, int]:
        """Open the file at its start; return it and its size in bytes.

        Raises
        ------
        VcfError
            If the file is missing, not a regular file, not readable or empty.
        """
        size = check_local_file(self.path, expected="a VCF file", error=VcfError)
        if not size:
            raise VcfError(self.label, "the file is empty", remedy="Fetch the file again")
        return self.path.open("rb"), size

    def index(self) -> VariantIndex | None:
        """Read the ``.tbi`` or ``.csi`` file beside the VCF; None if there is neither.

        Raises
        ------
        VcfError
            If the index is damaged or not the index of a VCF text file.
        """
        found = find_index(self.path)
        return None if found is None else read_index(found, where=str(found))
