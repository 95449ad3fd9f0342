"""The records of one contig in an indexed VCF: found by the index, and checked against the file.

An index is a claim about another file, and files and indexes part company. What is read between two offsets counts as
the contig only if it is whole lines, all of them name the contig, there are as many as the index counts, and the line
that follows names another.
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
    """Where the records of a contig are.

    Attributes
    ----------
    label
        What errors call the file.
    name
        The contig as the file writes it.
    begin, end
        Virtual offsets of its first line and of what follows its last.
    records
        Number of its records.
    lines_before
        Data lines that stand before it in the file.
    header_end
        Virtual offset of the file's first record.
    """

    label: str
    name: str
    begin: int
    end: int
    records: int
    lines_before: int
    header_end: int

    def check_block(self, block: VcfBlock) -> None:
        """Raise :class:`VcfError` unless all records name this contig."""
        others = [name for name, _ in block.runs() if name != self.name]
        if others:
            self.misfit(f"records of {others[0]!r} stand where those of {self.name!r} should")

    def check_end(self, file: BinaryIO, records: int) -> None:
        """Raise :class:`VcfError` unless there were all the records that the index counts, and no more follow."""
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
        """Raise :class:`VcfError`."""
        raise VcfError(
            self.label,
            f"the index does not fit the file: {how}",
            remedy="Index it again (tabix -f -p vcf), or fetch both",
        )


def find_region(source: VcfSource, contig: Contig) -> Region | None:
    """Return where an index says that a contig's records are; None where there is none that counts them.

    Raises
    ------
    VcfError
        If there is an index that cannot be read.
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
