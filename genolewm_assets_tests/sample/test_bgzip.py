from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pysam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.sample.bgzip import END_OF_FILE, compress_blocks, write_bgzip
from genolewm_assets.sample.genome.draws import Draws


@given(st.binary(max_size=2_000))
def test_round_trip(data: bytes) -> None:
    assert gzip.decompress(compress_blocks(data)) == data


@pytest.mark.parametrize("size", [0, 1, 65_279, 65_280, 65_281, 200_000])
def test_htslib_reads_incompressible_data_of_every_size(size: int, tmp_path: Path) -> None:
    data = Draws(size).below(256, size).astype("uint8").tobytes()
    path = tmp_path / "x.gz"
    write_bgzip(path, data)
    with pysam.BGZFile(str(path), "rb", None) as file:
        assert file.read(size + 1) == data
    assert path.read_bytes().endswith(END_OF_FILE)


def test_empty_data_is_the_end_marker_alone() -> None:
    assert compress_blocks(b"") == END_OF_FILE


def test_checksum_stands_beside(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "x.vcf.bgz"
    write_bgzip(path, b"##fileformat=VCFv4.2\n")
    digest = hashlib.md5(path.read_bytes()).hexdigest()
    assert (tmp_path / "deep" / "x.vcf.bgz.md5").read_text() == f"{digest}  x.vcf.bgz\n"
