"""Bound the size of a VCF header while it is read, so that a file made to harm costs little time and memory."""

from __future__ import annotations

from io import BytesIO
from typing import BinaryIO

from genolewm_assets.errors import VcfError
from genolewm_assets.sources.vcf.text import read_text

#: Most header lines accepted. GRCh38 with its alternates, decoys and HLA alleles has 3,366 contig lines.
MAX_HEADER_LINES = 100_000
#: Most bytes accepted in all header lines together, the ``#CHROM`` line included: a million names of 15 letters.
MAX_HEADER_BYTES = 16 << 20
# BCF: magic and length, then the text of a VCF header (VCF 4.3, section 6.2).
_BCF_MAGIC, _BCF_HEADER_AT = b"BCF", 9


class HeaderSize:
    """Counts the lines and bytes of a header; ``label`` is the name of the file in errors."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._lines = 0
        self._bytes = 0

    def add(self, size_bytes: int, *, lines: int = 1) -> None:
        """Count a header line, or with ``lines=0`` a part of one."""
        self._lines += lines
        self._bytes += size_bytes
        if self._lines > MAX_HEADER_LINES or self._bytes > MAX_HEADER_BYTES:
            raise VcfError(
                f"{self._label}, line {self._lines}",
                "the header is too large",
                expected=f"at most {MAX_HEADER_LINES:,} lines and {MAX_HEADER_BYTES >> 20} MiB",
                got="more",
                remedy="Check that the file is a VCF, or shorten its header with bcftools reheader",
            )


def read_header_lines(file: BinaryIO, *, label: str) -> list[str]:
    """Read the ``##`` lines of a VCF or BCF, plain, gzip or BGZF, for a library that accepts a header of any size.

    Raises
    ------
    VcfError
        If the header is too large, or the compressed data are truncated or damaged.
    """
    size, header, within_line = HeaderSize(label), bytearray(), False
    for number, (parts, *_) in enumerate(read_text(file, label=label, threads=1)):
        text = b"".join(parts)
        if number == 0 and text.startswith(_BCF_MAGIC):
            text = text[_BCF_HEADER_AT:]
        for line in BytesIO(text):
            if not within_line and not line.startswith(b"#"):
                return _split_header(header)
            within_line = not line.endswith(b"\n")
            size.add(len(line), lines=0 if within_line else 1)
            header += line
    return _split_header(header)


def _split_header(header: bytearray) -> list[str]:
    lines = header.decode(errors="replace").split("\n")
    return [line.removesuffix("\r") for line in lines if line.startswith("##")]
