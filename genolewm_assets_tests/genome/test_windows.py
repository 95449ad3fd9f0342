from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.errors import IntervalError, WindowError
from genolewm_assets.genome import (
    GRCH38,
    PROFILES,
    Contig,
    Interval,
    IntervalArray,
    WindowProfile,
    acgt_runs,
    pos_from_start,
    start_from_pos,
    tile_windows,
)
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.strategies import contigs, intervals


@st.composite
def geometries(draw: st.DrawFn) -> WindowProfile:
    window_bp = 6 * draw(st.integers(1, 8))
    return WindowProfile("p", window_bp, draw(st.integers(1, window_bp)), draw(st.integers(0, 9)), draw(st.booleans()))


@st.composite
def runs_of(draw: st.DrawFn, length: int) -> IntervalArray:
    cuts = sorted(draw(st.sets(st.integers(0, length), max_size=10)))
    cuts = cuts[: len(cuts) // 2 * 2]
    return IntervalArray(np.array(cuts[0::2], dtype=np.int64), np.array(cuts[1::2], dtype=np.int64))


def walked(runs: IntervalArray, profile: WindowProfile) -> list[tuple[int, int]]:
    """Step along each run as the specification words it: the plain referee."""
    windows = []
    for start, end in runs:
        at, last = start + profile.margin_bp, None
        while at + profile.window_bp + profile.margin_bp <= end:
            windows.append((at, at + profile.window_bp))
            last, at = at, at + profile.stride_bp
        tail = end - profile.margin_bp - profile.window_bp
        if profile.cover_tails and last is not None and tail > last:
            windows.append((tail, tail + profile.window_bp))
    return windows


@given(st.data(), st.integers(48, 600), geometries())
def test_linear_tiling_equals_walking(data: st.DataObject, length: int, profile: WindowProfile) -> None:
    contig, runs = Contig("c", length), data.draw(runs_of(length))
    windows = profile.tile(contig, runs)
    assert list(windows) == walked(runs, profile)
    whole = IntervalArray(np.array([0]), np.array([length]))
    assert profile.tile(contig) == profile.tile(contig, whole)


@given(contigs(circular=True, min_length=48), geometries())
def test_circular_tiling_never_drops_a_base(contig: Contig, profile: WindowProfile) -> None:
    windows = profile.tile(contig)
    assert windows.start.tolist() == list(range(0, contig.length, profile.stride_bp))
    assert set(windows.size.tolist()) == {profile.window_bp}
    seen = np.zeros(contig.length, dtype=bool)
    for start, end in windows:
        seen[np.arange(start, end) % contig.length] = True
    assert seen.all()


@each_row(("length", "count"), [(12_287, None), (12_288, 0), (12_799, 0), (12_800, 1), (12_801, 1)])
def test_borders_of_the_default_profile(length: int, count: int | None) -> None:
    contig, profile = Contig("c", length), PROFILES["default"]
    if count is None:
        with pytest.raises(WindowError, match="contig 'c': shorter than one window"):
            profile.tile(contig)
    else:
        assert len(profile.tile(contig)) == count


@each_row(("contig", "count"), [("chr17", 142), ("chr20", 1_212), ("chr21", 549)])
def test_real_slices(contig: str, count: int, contig_bytes: Callable[[str], bytes]) -> None:
    sequence = contig_bytes(contig)
    runs = acgt_runs(sequence)
    windows = PROFILES["default"].tile(GRCH38[contig], runs)
    assert len(windows) == count
    assert list(windows) == walked(runs, PROFILES["default"])
    assert not any(sequence[start - 256 : end + 256].strip(b"ACGT") for start, end in windows)


@each_row(("window_bp", "stride_bp", "margin_bp"), [(12, 0, 0), (12, 13, 0), (12, 6, -1), (0, 0, 0), (-6, -6, 0)])
def test_impossible_geometry_is_an_error(window_bp: int, stride_bp: int, margin_bp: int) -> None:
    with pytest.raises(WindowError, match="impossible window geometry"):
        WindowProfile("p", window_bp, stride_bp, margin_bp)
    with pytest.raises(WindowError, match="impossible window geometry"):
        tile_windows(Contig("c", 100), window_bp=window_bp, stride_bp=stride_bp, margin_bp=margin_bp)


def test_runs_must_lie_on_the_contig() -> None:
    runs = IntervalArray(np.array([0]), np.array([101]))
    with pytest.raises(IntervalError, match="a run reaches past the end of the contig"):
        tile_windows(Contig("c", 100), window_bp=12, stride_bp=6, runs=runs)
    with pytest.raises(WindowError, match="circular"):
        tile_windows(Contig("c", 100, circular=True), window_bp=12, stride_bp=6, runs=runs)


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


@each_row("pos", [0, -3, np.array([5, 0])])
def test_pos_below_one_is_an_error(pos: int) -> None:
    with pytest.raises(IntervalError, match="expected at least 1"):
        start_from_pos(pos)


@pytest.mark.parametrize(("start", "end"), [(-1, 3), (5, 4)])
def test_impossible_interval_is_an_error(start: int, end: int) -> None:
    with pytest.raises(IntervalError):
        Interval("chr1", start, end)


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
