from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.errors import IntervalError
from genolewm_assets.genome import (
    NO_INTERVALS,
    Interval,
    IntervalArray,
    first_met,
    meets,
    pos_from_start,
    start_from_pos,
)
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.strategies import intervals

LENGTH = 120


def painted(pairs: list[tuple[int, int]]) -> np.ndarray:
    """Mark the covered bases one by one: the plain referee."""
    mask = np.zeros(LENGTH, dtype=bool)
    for start, end in pairs:
        mask[start:end] = True
    return mask


pair_lists = st.lists(intervals(length=LENGTH).map(lambda i: (i.start, i.end)), max_size=12)


def build(pairs: list[tuple[int, int]]) -> IntervalArray:
    return IntervalArray.from_unsorted([s for s, _ in pairs], [e for _, e in pairs])


@given(st.integers(1, 2**40))
def test_pos_and_start_are_inverse(pos: int) -> None:
    assert start_from_pos(pos) == pos - 1
    assert pos_from_start(start_from_pos(pos)) == pos
    column = np.array([pos, 1])
    assert np.array_equal(pos_from_start(start_from_pos(column)), column)


def test_empty_columns_convert() -> None:
    empty = np.zeros(0, dtype=np.int64)
    assert start_from_pos(empty).size == pos_from_start(empty).size == 0


@each_row("pos", [0, -3, np.array([5, 0])])
def test_pos_below_one_is_an_error(pos: int) -> None:
    with pytest.raises(IntervalError, match="expected at least 1"):
        start_from_pos(pos)


@pytest.mark.parametrize("start", [-1, np.array([5, -1])])
def test_negative_start_is_an_error(start: int) -> None:
    with pytest.raises(IntervalError, match="expected at least 0"):
        pos_from_start(start)


def test_interval_from_vcf() -> None:
    assert Interval.from_vcf("chr17", 43_044_295, "AGT") == Interval("chr17", 43_044_294, 43_044_297)


@pytest.mark.parametrize(("start", "end"), [(-1, 3), (5, 4)])
def test_impossible_interval_is_an_error(start: int, end: int) -> None:
    with pytest.raises(IntervalError):
        Interval("chr1", start, end)


@each_row(
    ("other", "overlap"), [((0, 10), 0), ((9, 11), 1), ((10, 20), 10), ((19, 30), 1), ((20, 30), 0), ((15, 15), 0)]
)
def test_overlap_at_borders(other: tuple[int, int], overlap: int) -> None:
    interval = Interval("chr1", 10, 20)
    assert interval.overlap(Interval("chr1", *other)) == overlap
    assert interval.overlap(Interval("chr2", *other)) == 0


@given(intervals(length=LENGTH), intervals(length=LENGTH))
def test_interval_arithmetic_equals_sets(a: Interval, b: Interval) -> None:
    left, right = set(range(a.start, a.end)), set(range(b.start, b.end))
    assert a.size == len(left)
    assert a.overlap(b) == b.overlap(a) == len(left & right)
    if right:
        assert a.contains(b) is (right <= left)
    assert not a.contains(Interval("other", b.start, b.end))


@given(pair_lists)
def test_merge_equals_painting(pairs: list[tuple[int, int]]) -> None:
    merged = build(pairs).merge()
    mask = painted(pairs)
    assert np.array_equal(painted(list(merged)), mask)
    assert np.all(merged.start[1:] > merged.end[:-1])
    assert np.all(merged.size > 0)
    assert merged.size.sum() == mask.sum()
    assert merged.merge() == merged


@given(pair_lists, pair_lists)
def test_overlap_bases_equal_painting(pairs: list[tuple[int, int]], queries: list[tuple[int, int]]) -> None:
    query, mask = build(queries), painted(pairs)
    expected = [int(mask[start:end].sum()) for start, end in query]
    assert build(pairs).overlap_bases(query).tolist() == expected


def test_array_is_a_read_only_copy() -> None:
    start = np.array([1, 5])
    array = IntervalArray(start, np.array([2, 6], dtype=np.int32))
    start[0] = 3
    assert list(array) == [(1, 2), (5, 6)]
    assert array.start.dtype == array.end.dtype == np.int64
    assert len(array) == 2
    with pytest.raises(ValueError, match="read-only"):
        array.end[0] = 9


@each_row(
    ("start", "end", "problem"),
    [
        ([1], [2, 3], "differ in shape or are not one-dimensional"),
        ([[1]], [[2]], "differ in shape or are not one-dimensional"),
        ([-1], [2], "not an interval"),
        ([1, 4], [2, 3], "interval 1: not an interval"),
        ([4, 1], [5, 2], "interval 1: precedes"),
        ([4, 4], [6, 5], "interval 1: precedes"),
    ],
)
def test_malformed_array_is_an_error(start: list[int], end: list[int], problem: str) -> None:
    with pytest.raises(IntervalError, match=problem):
        IntervalArray(np.array(start), np.array(end))


def test_comparison_with_another_type() -> None:
    assert build([(0, 1)]) != [(0, 1)]
    assert build([(0, 1)]) != build([(0, 2)])


SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)).map(lambda s: (s[0], s[0] + s[1])), max_size=9)


def columns(spans: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    start, end = np.array(spans, dtype=np.int64).reshape(-1, 2).T
    return start, end


@given(SPANS, SPANS)
def test_first_met_is_the_first_of_those_that_share_a_base(
    held: list[tuple[int, int]], asked: list[tuple[int, int]]
) -> None:
    intervals = IntervalArray.from_unsorted(*columns(held))
    expected = [
        next((i for i, (a, b) in enumerate(intervals) if set(range(a, b)) & set(range(start, end))), -1)
        for start, end in asked
    ]
    assert first_met(intervals, *columns(asked)).tolist() == expected
    assert meets(intervals.merge(), *columns(asked)).tolist() == [i >= 0 for i in expected]


@each_row(("start", "end", "met"), [(0, 10, False), (0, 11, True), (19, 20, True), (20, 21, False)])
def test_touching_is_not_meeting(start: int, end: int, met: bool) -> None:
    held = IntervalArray(np.array([10]), np.array([20]))
    assert meets(held, np.array([start]), np.array([end])).tolist() == [met]
    assert not meets(NO_INTERVALS, np.array([start]), np.array([end])).any()
