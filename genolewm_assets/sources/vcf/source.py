"""Access to a VCF and its index, and the part of the file of one contig, with which the index is verified.

The part is accepted only if it consists of whole lines that all name the contig, as many as the index states, and the
next line names another contig. Not here: VCFs at URLs (:mod:`~genolewm_assets.sources.vcf.remote`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NoReturn, Protocol

from genolewm_assets.errors import VcfError
from genolewm_assets.genome import Contig
from genolewm_assets.sources.files import Compression, check_local_file, detect_compression
from genolewm_assets.sources.vcf.block import VcfBlock
from genolewm_assets.sources.vcf.index import VariantIndex, find_index, read_index
from genolewm_assets.sources.vcf.text import read_text


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


@dataclass(frozen=True, slots=True)
class Region:
    """The part of a VCF that holds the records of one contig, as the index states it."""

    label: str
    name: str
    begin: int
    end: int
    records: int
    lines_before: int
    header_end: int

    def check_block(self, block: VcfBlock) -> None:
        """Raise :class:`VcfError` unless all records of a block name this contig."""
        others = [name for name in block.distinct_chroms()[0] if name != self.name]
        if others:
            self.misfit(f"where it states {self.name!r}, the file has records of {others[0]!r}")

    def check_end(self, file: BinaryIO, records: int) -> None:
        """Raise :class:`VcfError` unless ``records``, the number read, is the index's and no more follow."""
        if records != self.records:
            self.misfit(f"it counts {self.records:,} records of {self.name!r}, the file has {records:,}")
        following = b""
        for chunk in read_text(file, label=self.label, threads=1, begin=self.end):
            following += b"".join(chunk.parts)
            if len(following) > len(self.name.encode()):
                break
        if following.startswith(f"{self.name}\t".encode()):
            self.misfit(f"more records of {self.name!r} follow")

    def misfit(self, how: str) -> NoReturn:
        """Raise :class:`VcfError`: the index does not fit the file; ``how`` says in what."""
        raise VcfError(
            self.label,
            f"the index does not fit the file: {how}",
            remedy="Index it again (tabix -f -p vcf), or fetch both",
        )


def find_region(source: VcfSource, contig: Contig) -> Region | None:
    """Return the part of a BGZF file that holds a contig's records, by an index that counts them; else None."""
    file, _ = source.open()
    with file:
        if detect_compression(file) is not Compression.BGZF:
            return None
    index = source.index()
    if index is None:
        return None
    names = [name for name in (contig.name, *contig.aliases) if name in index.contigs]
    if len(names) != 1:
        return None
    found, before = index.contigs[names[0]], index.lines_before(names[0])
    if found.records is None or before is None:
        return None
    header_end = min(each.begin for each in index.contigs.values())
    return Region(source.label, found.name, found.begin, found.end, found.records, before, header_end)
