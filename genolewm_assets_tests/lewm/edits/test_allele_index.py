from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from genolewm_assets.lewm.edits.allele_index import AlleleIndex
from genolewm_assets_tests.worlds.lewm.stream_world import no_alleles

ROWS = [
    ("chr2", 5, "A", "C", "B"),
    ("chr17", 9, "AT", "A", "P"),
    ("chr17", 1, "G", "C", None),
    ("chr17", 9, "A", "T", "LP"),
    ("chr17", 9, "A", "T", "LP"),
    ("chr2", 7, "A", "C", "VUS"),
]


@pytest.fixture
def index() -> AlleleIndex:
    columns = zip(("chrom", "pos", "ref", "alt", "label"), zip(*ROWS, strict=True), strict=True)
    return AlleleIndex.of(pa.table({name: list(values) for name, values in columns}))


@pytest.mark.parametrize("contig", ["chr17", "chr2", "chr1", "chr"])
def test_rows_are_those_whose_first_base_lies_in_the_interval(index, contig):
    for start in range(10):
        for end in range(10):
            found = [index.allele(row) for row in index.rows(contig, start, end)]
            wanted = sorted(row[1:4] for row in ROWS if row[0] == contig and start <= row[1] - 1 < end)
            assert found == wanted


def test_every_allele_is_found_and_no_neighbour(index):
    for chrom, pos, ref, alt, _ in ROWS:
        assert index.contains(chrom, pos, ref, alt)
        for other in (
            (chrom, pos + 1, ref, alt),
            (chrom, pos, alt, ref),
            ("chr21", pos, ref, alt),
            (chrom, pos, ref, "AA"),
        ):
            assert not index.contains(*other)


def test_classes_follow_their_allele(index):
    stated = {row: index.classification(row) for row in index.rows("chr17", 0, 20)}
    found = {(*index.allele(row), one and one.label) for row, one in stated.items()}
    assert found == {row[1:] for row in ROWS if row[0] == "chr17"}
    assert len(index) == 6


def test_an_empty_table_and_one_without_classes():
    index = AlleleIndex.of(no_alleles())
    assert not len(index)
    assert not index.contains("chr17", 1, "A", "C")
    index = AlleleIndex.of(pa.table({"chrom": ["c"], "pos": [1], "ref": ["A"], "alt": ["C"]}))
    assert index.classification(0) is None


def test_many_alleles_are_searched_not_scanned():
    n = 100_000
    table = pa.table({"chrom": ["chr1"] * n, "pos": np.arange(1, n + 1), "ref": ["A"] * n, "alt": ["C"] * n})
    index = AlleleIndex.of(table)
    assert [index.allele(row)[0] for row in index.rows("chr1", 500, 503)] == [501, 502, 503]
    assert index.contains("chr1", n, "A", "C")
