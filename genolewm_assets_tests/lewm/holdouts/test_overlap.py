from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.genome import IntervalArray
from genolewm_assets.lewm.holdouts.overlap import NO_INTERVALS, first_met, meets, merge_intervals

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


@pytest.mark.parametrize(("start", "end", "met"), [(0, 10, False), (0, 11, True), (19, 20, True), (20, 21, False)])
def test_touching_is_not_meeting(start: int, end: int, met: bool) -> None:
    held = IntervalArray(np.array([10]), np.array([20]))
    assert meets(held, np.array([start]), np.array([end])).tolist() == [met]
    assert not meets(NO_INTERVALS, np.array([start]), np.array([end])).any()


def test_intervals_are_merged_by_contig() -> None:
    table = pa.table({"contig": ["b", "a", "b", "b"], "start": [5, 0, 0, 30], "end": [9, 2, 6, 31]})
    assert {contig: list(spans) for contig, spans in merge_intervals(table).items()} == {
        "b": [(0, 9), (30, 31)],
        "a": [(0, 2)],
    }
