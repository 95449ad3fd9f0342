"""The number of ALT alleles in a VCF, counted without the reader that the shards are built with."""

from __future__ import annotations

import io
from pathlib import Path

from isal import igzip

from genolewm_assets.sources.compression import Compression, detect_compression

_ALT = 4
_BUFFER_BYTES = 1 << 20
_HEADER_STARTS = (b"#", b"\xef\xbb\xbf#")


def count_alleles(vcf: Path) -> int:
    """Count the ALT alleles of every data line: one more than the commas of its fifth column.

    Parameters
    ----------
    vcf
        A file that :class:`~genolewm_assets.sources.vcf.VcfReader` has read to its end without an error.
    """
    with vcf.open("rb") as raw:
        packed = detect_compression(raw) is not Compression.PLAIN
        stream = io.BufferedReader(igzip.IGzipFile(fileobj=raw, mode="rb"), _BUFFER_BYTES) if packed else raw  # type: ignore[no-untyped-call]
        return sum(
            1 + line.split(b"\t", _ALT + 1)[_ALT].count(b",")
            for line in stream
            if not line.startswith(_HEADER_STARTS) and line.strip()
        )
