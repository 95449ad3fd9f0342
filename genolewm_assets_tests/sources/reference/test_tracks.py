from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from genolewm_assets.errors import InputError
from genolewm_assets.genome import Contig, ContigSet
from genolewm_assets.sources.reference.tracks import read_bed_track

CONTIGS = ContigSet(
    [Contig("chr1", 1_000, aliases=("1", "NC_000001.11")), Contig("chr2", 500), Contig("chrM", 100, circular=True)]
)

TRACK = """# a comment
track name="segments"
browser position chr1:1-100

1\t90\t110\tname\t0\t+
chr1\t0\t10
chr1\t5\t20
chr1\t20\t30
chr1\t40\t40
NC_000001.11\t999\t1000
chrM 0 100
chrUn_KI270302v1\t5\t9000
"""


def read(path: Path) -> dict[str, list[tuple[int, int]]]:
    return {name: list(intervals) for name, intervals in read_bed_track(path, CONTIGS).items()}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_intervals_are_merged_per_contig(tmp_path: Path, packed: bool, end: str) -> None:
    file = tmp_path / "track.bed"
    content = TRACK.replace("\n", end).encode()
    file.write_bytes(gzip.compress(content[:100]) + gzip.compress(content[100:]) if packed else content)
    assert read(file) == {"chr1": [(0, 30), (90, 110), (999, 1_000)], "chr2": [], "chrM": [(0, 100)]}


BAD = {
    "two columns": ("chr1\t5\n", ":1: not a BED line: expected contig, start, end, got"),
    "words": ("chr1\t1\t2\nchr1\tx\t9\n", ":2: not a BED line"),
    "float": ("chr1\t1.0\t9\n", ":1: not a BED line"),
    "reversed": ("chr1\t9\t5\n", r":1: interval is not inside chr1: expected 0 <= start <= end <= 1,000, got 9-5"),
    "negative": ("chr1\t-1\t5\n", ":1: interval is not inside chr1"),
    "beyond the contig": ("#\nchr1\t1\t1001\n", ":2: interval is not inside chr1"),
    "other genome": ("LG1\t0\t5\nLG2\t0\t5\n", "no line is on a contig of the genome: .* got LG1, LG2"),
    "empty": ("", "no line is on a contig of the genome: .* got no lines"),
    "not BED": ("##fileformat=VCFv4.2\n", "no line is on a contig of the genome"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_lines_are_named(tmp_path: Path, case: str) -> None:
    content, message = BAD[case]
    file = tmp_path / "track.bed"
    file.write_text(content)
    with pytest.raises(InputError, match=message):
        read_bed_track(file, CONTIGS)
