"""A genome of two random contigs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from genolewm_assets_tests.sources.similarity.genomes import random_bases, write_fasta


@pytest.fixture(scope="module")
def contigs() -> dict[str, bytes]:
    rng = np.random.default_rng(17)
    return {name: random_bases(rng, 200_000) for name in ("chr17", "chr20")}


@pytest.fixture(scope="module")
def fasta(tmp_path_factory: pytest.TempPathFactory, contigs: dict[str, bytes]) -> Path:
    return write_fasta(tmp_path_factory.mktemp("similarity") / "genome.fa", contigs)
