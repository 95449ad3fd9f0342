"""The number of ALT alleles, and of records, in a VCF, counted without the reader that the shards are built with."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

from isal import igzip

from genolewm_assets.sources.compression import Compression, detect_compression
from genolewm_assets.store.progress import NO_PROGRESS, Progress

_ALT = 4
_BUFFER_BYTES = 1 << 20
_LINES_BETWEEN = 1 << 14
_HEADER_STARTS = (b"#", b"\xef\xbb\xbf#")


def count_alleles(vcf: Path, *, progress: Progress = NO_PROGRESS) -> int:
    """Count the ALT alleles of every data line: one more than the commas of its fifth column.

    Parameters
    ----------
    vcf
        A file that :class:`~genolewm_assets.sources.vcf.VcfReader` has read to its end without an error.
    """
    return sum(1 + line.split(b"\t", _ALT + 1)[_ALT].count(b",") for line in _data_lines(vcf, progress))


def count_records(vcf: Path, *, progress: Progress = NO_PROGRESS) -> int:
    """Count the data lines; ``vcf`` as that of :func:`count_alleles`."""
    return sum(1 for _ in _data_lines(vcf, progress))


def _data_lines(vcf: Path, progress: Progress) -> Iterator[bytes]:
    size = vcf.stat().st_size
    with vcf.open("rb") as raw:
        packed = detect_compression(raw) is not Compression.PLAIN
        stream = io.BufferedReader(igzip.IGzipFile(fileobj=raw, mode="rb"), _BUFFER_BYTES) if packed else raw  # type: ignore[no-untyped-call]
        for number, line in enumerate(stream):
            if number % _LINES_BETWEEN == 0:
                progress.advance(min(raw.tell(), size), size, "bytes counted")
            if not line.startswith(_HEADER_STARTS) and line.strip():
                yield line
    progress.advance(size, size, "bytes counted")
