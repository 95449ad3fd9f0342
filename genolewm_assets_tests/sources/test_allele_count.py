from __future__ import annotations

from pathlib import Path

import pytest

from genolewm_assets.sources.allele_count import count_alleles
from genolewm_assets_tests.sources.vcf_files import vcf_text, write_text

RECORDS = [
    ("chr1", 1, ".", "A", "C", "PASS", "AF=0.1,0.2"),
    ("chr2", 2, ".", "A", "C,G,T", "PASS", "."),
    ("chr2", 3, ".", "A", ".", "PASS", "."),
]


@pytest.mark.parametrize("how", ["plain", "gzip", "bgzip"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_alternate_alleles_of_every_contig_are_counted(tmp_path: Path, how: str, end: str) -> None:
    assert count_alleles(write_text(tmp_path / "a.vcf", vcf_text(RECORDS, end=end), how)) == 5
    assert count_alleles(write_text(tmp_path / "b.vcf", vcf_text(RECORDS, end=end).rstrip(), how)) == 5
    assert count_alleles(write_text(tmp_path / "c.vcf", vcf_text([]), how)) == 0
