"""The real slices of GRCh38 as the builders ask for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import pysam
import pytest

from genolewm_assets.genome import GRCH38, Contig, ContigSet


@pytest.fixture(scope="session")
def sliced_contigs() -> ContigSet:
    """Return the contigs that the shared slices hold."""
    return ContigSet([GRCH38[name] for name in ("chr17", "chr20", "chr21", "chrM")])


@pytest.fixture(scope="session")
def sliced_fasta(shared_data: Path) -> Path:
    """Return the FASTA of real slices."""
    return shared_data / "reference" / "GRCh38.slices.fa.gz"


@pytest.fixture(scope="session")
def sliced_reference(sliced_fasta: Path) -> Callable[[Contig], bytes]:
    """Return what gives a contig's bases."""

    @lru_cache(maxsize=4)
    def read(name: str) -> bytes:
        with pysam.FastaFile(str(sliced_fasta)) as fasta:
            return str(fasta.fetch(name)).upper().encode()

    return lambda contig: read(contig.name)
