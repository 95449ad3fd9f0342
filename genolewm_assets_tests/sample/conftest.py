"""The sample written once, and the simulated genome, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from genolewm_assets.sample import write_sample
from genolewm_assets.sample.genome.reference import SimulatedContig, simulate_reference
from genolewm_assets_tests.referees.census import read_sequences


@pytest.fixture(scope="session")
def sample_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a root under which the sample has been written."""
    root = tmp_path_factory.mktemp("sample_root")
    write_sample(root)
    return root


@pytest.fixture(scope="session")
def sample_dir(sample_root: Path) -> Path:
    """Return the folder of the published files of the sample."""
    return sample_root / "sample" / "files"


@pytest.fixture(scope="session")
def sequences(sample_dir: Path) -> dict[str, str]:
    """Return the upper-case sequence of each contig, read from the FASTA."""
    return read_sequences(sample_dir / "reference.fa.gz")


@pytest.fixture(scope="session")
def genome() -> Mapping[str, SimulatedContig]:
    """Return the simulated contigs, with their masks and genes."""
    return simulate_reference()
