from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from genolewm_assets.edits.allele_index import AlleleIndex, Classification
from genolewm_assets.genome import CLASSES
from genolewm_assets_tests.worlds.lewm.stream_world import no_alleles

ROWS = [
    *(("chr2", 5, "A", "C", "B"), ("chr17", 9, "AT", "A", "P"), ("chr17", 1, "G", "C", None)),
    *(("chr17", 9, "A", "T", "LP"), ("chr17", 9, "A", "T", "LP"), ("chr2", 7, "A", "C", "VUS")),
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
        assert not index.contains("chr21", pos, ref, alt)
        for other in ((pos + 1, ref, alt), (pos, alt, ref), (pos, ref, "AA")):
            assert not index.contains(chrom, *other)


def test_classes_follow_their_allele(index):
    facts = index.classification.take(np.arange(-1, len(index)))
    names = [None, *(None if code < 0 else CLASSES[code] for code in facts.label[1:])]
    assert [(*index.allele(row), names[row + 1]) for row in index.rows("chr17", 0, 20)] == sorted(
        (row[1:] for row in ROWS if row[0] == "chr17"), key=lambda row: row[:3]
    )
    assert len(index) == len(facts) - 1 == 6
    assert facts.stars.tolist() == facts.clinvar_id.tolist() == [-1] * 7


def test_facts_of_alleles_are_taken_and_joined():
    columns = {"chrom": ["c"] * 4, "pos": [4, 3, 2, 1], "ref": ["A"] * 4, "alt": ["C"] * 4}
    columns |= {"label": ["P", None, "OTHER", "B"], "stars": pa.array([2, None, 0, 4], pa.int8())}
    columns |= {"clinvar_id": [10, None, 2**40, 7], "gene_ids": [[5, 3], None, [], [9]]}
    facts = AlleleIndex.of(pa.table(columns)).classification
    taken = facts.take(np.array([3, -1, 0, 1, 3]))
    both = Classification.concatenate([taken, Classification.unknown(1), facts.take(np.zeros(0, np.int64))])
    for found, n in ((taken, 5), (both, 6)):
        assert found.label.tolist() == [0, -1, 4, 5, 0, -1][:n]
        assert found.stars.tolist() == [2, -1, 4, 0, 2, -1][:n]
        assert found.clinvar_id.tolist() == [10, -1, 7, 2**40, 10, -1][:n]
        genes = [found.gene_ids[first:end].tolist() for first, end in pairwise(found.gene_at)]
        assert genes == [[5, 3], [], [9], [], [5, 3], []][:n]


def test_an_empty_table_and_one_without_classes():
    index = AlleleIndex.of(no_alleles())
    assert not len(index)
    assert not index.contains("chr17", 1, "A", "C")
    index = AlleleIndex.of(pa.table({"chrom": ["c"], "pos": [1], "ref": ["A"], "alt": ["C"]}))
    assert index.classification is None
