"""Count the records and ALT alleles of a VCF independently of the scanner that shards are built with.

The counter reads the inflated text in pieces of any length. It assembles no lines and parses no fields, so it also
counts what an error in the scanner would lose.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.sources.vcf.text import read_text


class AlleleCount:
    """Counts data lines and ALT alleles of a text fed in pieces; a line has one allele more than commas in ALT."""

    def __init__(self, state: tuple[int, int, int, int] = (0, 0, 0, 2)) -> None:
        from genolewm_assets.sources.vcf.kernels import count_lines

        self._count_lines = count_lines
        self._counts = np.array(state, np.int64)

    @property
    def state(self) -> tuple[int, int, int, int]:
        """What a count that goes on with the next piece of the text begins with."""
        records, alleles, column, place = self._counts.tolist()
        return records, alleles, column, place

    @property
    def records(self) -> int:
        """Number of data lines fed so far."""
        return int(self._counts[0])

    @property
    def alleles(self) -> int:
        """Number of ALT alleles fed so far; ``.`` counts as one."""
        return int(self._counts[1])

    def feed(self, text: bytes) -> None:
        """Count the records and alleles in the next piece of the text."""
        self._count_lines(np.frombuffer(text, np.uint8), self._counts)


def count_records(vcf: Path, *, progress: Progress = NO_PROGRESS) -> int:
    """Count the data lines of a BGZF, gzip or plain VCF file.

    Raises
    ------
    VcfError
        If the file is truncated or its compressed data are damaged.
    """
    count, size = AlleleCount(), vcf.stat().st_size
    with vcf.open("rb") as file:
        for parts, read_bytes, _ in read_text(file, label=str(vcf), threads=2):
            for part in parts:
                count.feed(part)
            progress.advance(min(read_bytes, size), size, "bytes counted")
    return count.records
