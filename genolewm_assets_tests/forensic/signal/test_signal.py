"""Baseline, peaks and pull-up of traces with known content."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.forensic.signal import Peaks, PullUpRules, find_peaks, find_pull_up
from genolewm_assets.forensic.signal.peaks import subtract_baseline
from genolewm_assets_tests.worlds.forensic.runs import add_peak


def plain_minimum(values: np.ndarray, half: int) -> np.ndarray:
    padded = np.pad(values, half, mode="edge")
    return np.array([padded[i : i + 2 * half + 1].min() for i in range(len(values))])


@given(st.lists(st.integers(-100, 1_000), min_size=1, max_size=60), st.integers(1, 40))
def test_the_baseline_is_the_smoothed_opening(values: list[int], window: int) -> None:
    trace = np.array(values, float)
    half = min(window // 2, (len(trace) - 1) // 2)
    opened = -plain_minimum(-plain_minimum(trace, half), half)
    padded = np.pad(opened, half, mode="edge")
    smooth = np.array([padded[i : i + 2 * half + 1].mean() for i in range(len(trace))])
    wanted = np.maximum(trace - smooth, 0) if half else trace - trace.min()
    assert subtract_baseline(trace, window=window) == pytest.approx(wanted, abs=1e-6)


def test_tops_between_scans_are_found() -> None:
    trace = np.zeros(500)
    for scan in (100.0, 200.3, 300.5, 400.75):
        add_peak(trace, scan, 1_000)
    peaks = find_peaks(trace, min_height=50, prominence=10)
    assert peaks.scan == pytest.approx([100, 200.3, 300.5, 400.75], abs=0.03)
    assert (peaks.left < peaks.scan).all()
    assert (peaks.scan < peaks.right).all()


def test_a_flat_top_is_one_peak_at_its_middle() -> None:
    trace = np.array([0, 5, 9, 9, 9, 9, 4, 0, 0], float)
    peaks = find_peaks(trace, min_height=1, prominence=1)
    assert (peaks.scan.tolist(), peaks.height.tolist()) == ([3.5], [9])
    assert (peaks.left.tolist(), peaks.right.tolist()) == ([0], [7])


def test_a_dip_of_less_than_the_prominence_does_not_part_peaks() -> None:
    trace = np.array([0, 50, 100, 92, 98, 40, 0, 30, 0], float)
    assert find_peaks(trace, min_height=20, prominence=10).height.tolist() == [100, 30]
    assert find_peaks(trace, min_height=20, prominence=5).height.tolist() == [100, 98, 30]
    assert find_peaks(trace, min_height=50, prominence=5).height.tolist() == [100, 98]


@given(st.lists(st.integers(0, 30), max_size=80), st.integers(1, 10))
def test_every_peak_rises_and_falls(values: list[int], prominence: int) -> None:
    trace = np.array(values, float)
    peaks = find_peaks(trace, min_height=1, prominence=prominence)
    for left, scan, height, right in zip(peaks.left, peaks.scan, peaks.height, peaks.right, strict=True):
        assert 0 <= left < scan < right < len(trace)
        assert trace[left : right + 1].max() == height
        assert max(trace[left], trace[right]) <= height - prominence
        assert left + np.argmax(trace[left : right + 1]) <= scan + 0.5
    assert (np.diff(peaks.scan) > 0).all()
    assert (peaks.left[1:] >= peaks.right[:-1]).all()


def test_feet_are_where_the_trace_stops_falling() -> None:
    trace = np.array([7, 7, 7, 5, 6, 30, 80, 60, 40, 3, 4, 4, 9, 50, 20, 20, 1], float)
    peaks = find_peaks(trace, min_height=20, prominence=15)
    assert peaks.left.tolist() == [3, 11]
    assert peaks.right.tolist() == [9, 14]


def test_a_trace_that_begins_high_has_no_peak_there() -> None:
    assert len(find_peaks(np.array([99, 100, 50, 0.0]), min_height=20, prominence=15)) == 0
    assert len(find_peaks(np.array([84, 100, 50, 0.0]), min_height=20, prominence=15)) == 1


def test_a_trace_that_only_rises_or_falls_has_no_peak() -> None:
    for trace in ([], [1.0], [1.0, 2.0], list(range(50)), list(range(50, 0, -1)), [7.0] * 20):
        assert len(find_peaks(np.array(trace, float), min_height=0, prominence=1)) == 0


def peaks_at(*tops: tuple[float, float]) -> Peaks:
    scan, height = np.array(tops, float).reshape(-1, 2).T
    return Peaks(scan, height, (scan - 5).astype(np.int64), (scan + 5).astype(np.int64))


def test_pull_up_is_low_and_below_another_dye() -> None:
    peaks = {1: peaks_at((100, 5_000), (200, 300)), 2: peaks_at((101, 400), (150, 400), (201, 2_000), (300, 10))}
    flags = find_pull_up(peaks, np.array([], np.int64), PullUpRules())
    assert flags[1].tolist() == [False, False]
    assert flags[2].tolist() == [True, False, False, False]


def test_saturated_peaks_may_pull_up_more() -> None:
    peaks = {1: peaks_at((100, 5_000)), 2: peaks_at((101, 1_000)), 3: peaks_at()}
    assert find_pull_up(peaks, np.array([], np.int64), PullUpRules())[2].tolist() == [False]
    assert find_pull_up(peaks, np.array([99]), PullUpRules())[2].tolist() == [True]
    assert find_pull_up(peaks, np.array([99]), PullUpRules())[3].tolist() == []


def test_peaks_touch_scans_between_their_feet() -> None:
    peaks = peaks_at((100, 1), (200, 1), (300, 1))
    assert peaks.touch(np.array([95, 206, 300])).tolist() == [True, False, True]
    assert "100" not in repr(peaks)
