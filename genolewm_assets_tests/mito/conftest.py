"""Fixtures of the mitochondrial tests: the vocabulary and rCRS, the real one and a made-up circle."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from genolewm_assets.mito import KmerVocabulary


@pytest.fixture(scope="session")
def vocabulary() -> KmerVocabulary:
    return KmerVocabulary.build(k=6)


@pytest.fixture(scope="session")
def rcrs(shared_data: Path) -> str:
    """Return rCRS (NC_012920.1), upper case; base 3,107 (1-based) is N."""
    with gzip.open(shared_data / "mtdna" / "rCRS_NC_012920.1.fa.gz", "rt") as fasta:
        return "".join(line.strip() for line in fasta if not line.startswith(">")).upper()


@pytest.fixture(scope="session")
def real_records(shared_data: Path) -> dict[str, str]:
    """Return 40 complete human mitochondrial genomes of four lengths by name, none with an N."""
    with gzip.open(shared_data / "mtdna" / "mt_genomes_1000G_40.fa.gz", "rt") as fasta:
        records = (record.split("\n") for record in fasta.read().split(">")[1:])
        return {header.split()[0]: "".join(lines).upper() for header, *lines in records}


@pytest.fixture(scope="session")
def real_names(real_records: dict[str, str]) -> list[str]:
    return list(real_records)


@pytest.fixture(scope="session")
def real_genomes(real_records: dict[str, str]) -> list[str]:
    return list(real_records.values())


@pytest.fixture(scope="session")
def genome() -> str:
    """Return a circle of rCRS's length over ACGT."""
    return "".join("ACGT"[code] for code in np.random.default_rng(7).integers(0, 4, 16_569))
