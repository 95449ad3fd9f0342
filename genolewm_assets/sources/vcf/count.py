"""The number of ALT alleles, and of records, in a VCF, counted without the scanner that the shards are built with.

The counter sees the inflated text as it comes, cut anywhere, and knows nothing of lines put together, columns or
fields: what the scanner loses, it still counts.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.sources.vcf.text import read_text


class AlleleCount:
    """Counts the data lines of a text fed in pieces, and one ALT allele more than the commas of each fifth column."""

    def __init__(self) -> None:
        from genolewm_assets.sources.vcf.kernels import count_lines

        self._count_lines = count_lines
        self._counts = np.array([0, 0, 0, 2])

    @property
    def records(self) -> int:
        """Data lines so far."""
        return int(self._counts[0])

    @property
    def alleles(self) -> int:
        """ALT alleles so far."""
        return int(self._counts[1])

    def feed(self, text: bytes) -> None:
        """Count what is in the next piece of the text."""
        self._count_lines(np.frombuffer(text, np.uint8), self._counts)


def count_records(vcf: Path, *, progress: Progress = NO_PROGRESS) -> int:
    """Count the data lines of a file that :class:`~genolewm_assets.sources.vcf.scan.VcfScanner` can read."""
    count, size = AlleleCount(), vcf.stat().st_size
    with vcf.open("rb") as file:
        for parts, read_bytes in read_text(file, label=str(vcf), threads=2):
            for part in parts:
                count.feed(part)
            progress.advance(min(read_bytes, size), size, "bytes counted")
    return count.records
