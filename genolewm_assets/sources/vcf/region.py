"""Find the records of one contig in an indexed VCF, and verify the index against the file.

An index can belong to another version of its file. The text between two of its offsets is therefore accepted as the
contig only if it consists of whole lines, every line names the contig, the number of lines is the one that the index
states, and the next line names another contig.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO, NoReturn

from genolewm_assets.errors import VcfError
from genolewm_assets.genome import Contig
from genolewm_assets.sources.files import Compression, detect_compression
from genolewm_assets.sources.vcf.block import VcfBlock
from genolewm_assets.sources.vcf.source import VcfSource
from genolewm_assets.sources.vcf.text import read_text


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
    """Return the part of a VCF that holds a contig's records, from its index.

    Result: None if the file is not BGZF, has no index, the index does not count the records, or it has the contig under
    none or several of its names.
    """
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
