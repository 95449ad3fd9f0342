"""Fixtures of the genome tests: real reference sequence."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pysam
import pytest


@pytest.fixture(scope="session")
def reference_fasta(shared_data: Path) -> Path:
    """GRCh38 slices at their true coordinates."""
    return shared_data / "reference" / "GRCh38.slices.fa.gz"


@pytest.fixture(scope="session")
def contig_bytes(reference_fasta: Path) -> Callable[[str], bytes]:
    """Read a contig of the slices as upper-case ASCII, once."""
    fasta = pysam.FastaFile(str(reference_fasta))
    return cache(lambda contig: fasta.fetch(contig).upper().encode())
