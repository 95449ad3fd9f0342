from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from genolewm_assets.variants.kernels import (
    MOST_TIES,
    NORMAL,
    NORMAL_IN_UPPER_CASE,
    UNDECIDED,
    AlleleColumns,
    classify_alleles,
    order_ties,
)
from genolewm_assets.variants.order import columns_of

#: The contig is the first 19 of these bases; an allele that reads on must not find what it asks for.
BASES = np.frombuffer(b"AACATTTTTCACACACGTN" + b"G" * 20, dtype=np.uint8)
LENGTH = 19


def columns(*alleles: tuple[int, str, str]) -> AlleleColumns:
    pos, ref, alt = zip(*alleles, strict=True)
    arrays = [pa.array(pos, pa.int64()), pa.array(ref, pa.string()), pa.array(alt, pa.string())]
    return columns_of(pa.RecordBatch.from_arrays(arrays, names=["pos", "ref", "alt"]))


@pytest.mark.parametrize(
    ("pos", "ref", "alt", "answer"),
    [
        (3, "C", "G", NORMAL),
        (3, "c", "G", NORMAL_IN_UPPER_CASE),
        (3, "C", "g", NORMAL_IN_UPPER_CASE),
        (3, "C", "c", UNDECIDED),
        (3, "G", "C", UNDECIDED),
        (3, "C", "CG", NORMAL),
        (3, "CA", "C", NORMAL),
        (3, "CA", "A", UNDECIDED),
        (3, "C", "AC", UNDECIDED),
        (1, "A", "CA", NORMAL),
        (1, "AA", "A", NORMAL),
        (2, "A", "CA", UNDECIDED),
        (3, "CA", "GG", NORMAL),
        (3, "CA", "GA", UNDECIDED),
        (3, "CA", "CG", UNDECIDED),
        (3, "CA", "Ga", UNDECIDED),
        (3, "CATT", "GCC", NORMAL),
        (3, "C", "G" * 8, NORMAL),
        (3, "C", "G" * 9, UNDECIDED),
        (3, "CATTTTTC", "G", NORMAL),
        (3, "CATTTTTCA", "G", UNDECIDED),
        (3, "", "G", UNDECIDED),
        (3, "C", "", UNDECIDED),
        (3, "C", "N", UNDECIDED),
        (3, "C", "*", UNDECIDED),
        (3, "C", "!", UNDECIDED),
        (19, "N", "G", UNDECIDED),
        (18, "T", "G", NORMAL),
        (20, "G", "C", UNDECIDED),
        (18, "TN", "G", UNDECIDED),
        (0, "A", "G", UNDECIDED),
        (-3, "A", "G", UNDECIDED),
        (-(2**63), "A", "G", UNDECIDED),
        (2**63 - 1, "A", "G", UNDECIDED),
    ],
)
def test_which_alleles_are_normal_as_they_stand(pos: int, ref: str, alt: str, answer: int) -> None:
    # In the middle of a column, so that a look beside the allele's own bytes would show.
    table = columns((1, "GGG", "TTT"), (pos, ref, alt), (1, "CCC", "AAA"))
    assert classify_alleles(table, BASES[:LENGTH], 0, True, LENGTH, 8)[1] == answer
    assert classify_alleles(table, BASES, 0, True, LENGTH, 8)[1] == answer
    if 1 <= pos <= LENGTH:
        assert classify_alleles(table, BASES[pos - 1 :], pos - 1, True, LENGTH, 8)[1] == answer
        assert classify_alleles(table, BASES[pos:], pos, True, LENGTH, 8)[1] == UNDECIDED


def test_a_reference_that_is_too_short_is_not_read_beyond_its_end() -> None:
    table = columns((9, "T", "A"), (11, "A", "C"), (9, "TCA", "G"))
    assert classify_alleles(table, BASES, 0, True, LENGTH, 8).tolist() == [NORMAL] * 3
    assert classify_alleles(table, BASES[:10], 0, True, LENGTH, 8).tolist() == [NORMAL, UNDECIDED, UNDECIDED]


@pytest.mark.parametrize(
    ("pos", "ref", "alt", "answer"),
    [
        (3, "G", "C", NORMAL),
        (3, "G", "TG", NORMAL),
        (3, "GT", "CT", UNDECIDED),
        (19, "G", "C", NORMAL),
        (19, "GT", "C", UNDECIDED),
        (20, "G", "C", UNDECIDED),
        (3, "N", "C", UNDECIDED),
    ],
)
def test_without_a_reference_alleles_need_only_be_trimmed(pos: int, ref: str, alt: str, answer: int) -> None:
    assert classify_alleles(columns((pos, ref, alt)), BASES[:0], 0, False, LENGTH, 8).tolist() == [answer]


@pytest.mark.parametrize("ties", [1, 2, MOST_TIES, MOST_TIES + 1])
def test_ties_are_ordered_up_to_a_number(ties: int) -> None:
    alleles = [(2, "A", "C"), *((5, "A", "C" * size) for size in range(ties, 0, -1)), (6, "A", "C")]
    order = np.arange(len(alleles))
    assert order_ties(order, columns(*alleles)) is (ties <= MOST_TIES)
    if ties <= MOST_TIES:
        assert order.tolist() == [0, *range(ties, 0, -1), ties + 1]
