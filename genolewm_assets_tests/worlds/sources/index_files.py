"""Indexes written for tests: by htslib, or byte by byte."""

from __future__ import annotations

import shutil
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pysam

from genolewm_assets.sources.files.local import BGZF_END

Chunk = tuple[int, int]


def bgzip(data: bytes, *, block_bytes: int = 0xFF00) -> bytes:
    """Pack data as BGZF (SAM specification, section 4.1), end-of-file block included."""
    blocks = []
    for at in range(0, len(data), block_bytes):
        text = data[at : at + block_bytes]
        deflater = zlib.compressobj(6, zlib.DEFLATED, -15)
        body = deflater.compress(text) + deflater.flush()
        head = BGZF_END[:16] + struct.pack("<H", len(body) + 25)
        blocks.append(head + body + struct.pack("<II", zlib.crc32(text), len(text)))
    return b"".join(blocks) + BGZF_END


def layout(names: bytes, *, format_: int = 2, column: int = 1, meta: str = "#", size: int | None = None) -> bytes:
    return struct.pack("<7i", format_, column, 2, 0, ord(meta), 0, len(names) if size is None else size) + names


def contig_bins(
    bins: Iterable[tuple[int, list[Chunk]]], linear: list[int] | None = None, *, is_csi: bool = False
) -> bytes:
    """Pack the bins of one contig, and in a tabix index the linear index."""
    bins, parts = list(bins), []
    parts.append(struct.pack("<i", len(bins)))
    for number, chunks in bins:
        parts.append(struct.pack("<IQ", number, 0) if is_csi else struct.pack("<I", number))
        parts.append(struct.pack("<i", len(chunks)))
        parts += [struct.pack("<2Q", *chunk) for chunk in chunks]
    if not is_csi:
        parts.append(struct.pack(f"<i{len(linear or [])}Q", len(linear or []), *(linear or [])))
    return b"".join(parts)


def tbi(names: list[str], contigs: list[bytes], *, end: bytes = bytes(8)) -> bytes:
    named = layout(b"".join(name.encode() + b"\0" for name in names))
    return b"TBI\x01" + struct.pack("<i", len(contigs)) + named + b"".join(contigs) + end


def csi(
    names: list[str], contigs: list[bytes], *, min_shift: int = 14, depth: int = 5, aux: bytes | None = None
) -> bytes:
    named = layout(b"".join(name.encode() + b"\0" for name in names)) if aux is None else aux
    head = struct.pack("<3i", min_shift, depth, len(named)) + named + struct.pack("<i", len(contigs))
    return b"CSI\x01" + head + b"".join(contigs) + bytes(8)


def index_beside(vcf: Path, copy: Path, *, csi: bool, min_shift: int = 14) -> Path:
    """Copy a BGZF file and let htslib index the copy; return the index."""
    if copy != vcf:
        shutil.copyfile(vcf, copy)
    how = {"csi": True, "min_shift": min_shift} if csi else {}
    pysam.tabix_index(str(copy), preset="vcf", force=True, keep_original=True, **how)
    return copy.with_name(copy.name + (".csi" if csi else ".tbi"))


def placed_lines(vcf: Path) -> Iterator[tuple[int, str]]:
    """Yield the virtual offset and the contig of every data line, read one after another."""
    with pysam.BGZFile(str(vcf)) as file:
        while True:
            offset = file.tell()
            line = file.readline()
            if not line and file.tell() == offset:
                return
            if not line.startswith(b"#"):
                yield offset, line.split(b"\t", 1)[0].decode()
