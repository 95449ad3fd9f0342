"""Sizing: local Southern, the match of a size standard, and runs whose standard is missing or unknown."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.errors import SizingError
from genolewm_assets.forensic import SizeStandard, SizingRules, parse_hid, size_run
from genolewm_assets.forensic.sizing.run import local_southern, standard_of
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.forensic.abif_files import c_string, pascal, write_abif
from genolewm_assets_tests.worlds.forensic.runs import GENOTYPE, LIZ_600, add_peak, run_tags, scan_of, traces

_ASCENDING = st.lists(st.floats(0.01, 50), min_size=3, max_size=12)


def plain_southern(scans: np.ndarray, sizes: np.ndarray, at: float) -> float:
    """Return the size by Southern's formula ``c / (t - t0) + s0`` through the points on both sides, averaged."""

    def curve(i: int) -> float:
        (t1, t2, t3), (s1, s2, s3) = scans[i : i + 3], sizes[i : i + 3]
        ratio = (s1 - s2) / (t2 - t1) * (t3 - t2) / (s2 - s3)
        t0 = (t3 - ratio * t1) / (1 - ratio)
        c = (s1 - s2) / (1 / (t1 - t0) - 1 / (t2 - t0))
        return float(c / (at - t0) + s1 - c / (t1 - t0))

    i = int(np.searchsorted(scans, at, side="right")) - 1
    starts = [k for k in (i - 1, i) if 0 <= k <= len(scans) - 3]
    return sum(map(curve, starts)) / len(starts)


def test_sizes_are_those_of_southerns_formula() -> None:
    sizes = np.array(LIZ_600, float)
    scans = scan_of(sizes) + np.sin(sizes)
    at = np.linspace(scans[0] + 0.1, scans[-1] - 0.1, 400)
    assert local_southern(scans, sizes, at) == pytest.approx([plain_southern(scans, sizes, t) for t in at], abs=1e-6)


@given(_ASCENDING, st.data())
def test_sizes_ascend_and_meet_every_fragment(steps: list[float], data: st.DataObject) -> None:
    n = len(steps)
    scans = np.cumsum(steps)
    sizes = np.cumsum(data.draw(st.lists(st.floats(0.01, 50), min_size=n, max_size=n)))
    assert local_southern(scans, sizes, scans) == pytest.approx(sizes, rel=1e-9, abs=1e-9)
    at = np.linspace(scans[0] - 20, scans[-1] + 20, 200)
    assert (np.diff(local_southern(scans, sizes, at)) > -1e-9).all()


def run_of(signal: np.ndarray, *, standard: str = "GS600 LIZ", settings: str = ""):
    more = [c_string("ScPa", 1, settings)] if settings else []
    return parse_hid(write_abif([*run_tags(signal, standard=standard), *more]), "run")


def test_every_fragment_is_found_among_blobs_and_noise() -> None:
    sizing = size_run(run_of(traces(GENOTYPE)))
    assert sizing.sizes_bp.tolist() == LIZ_600
    assert sizing.missing_bp == ()
    assert sizing.scans == pytest.approx(scan_of(LIZ_600), abs=0.2)
    assert np.abs(sizing.residuals_bp).max() < 0.05
    assert sizing.r_squared > 0.999999
    inside = slice(int(scan_of(20)) + 1, int(scan_of(600)))
    assert sizing.scaler.dtype == np.float32
    assert scan_of(sizing.scaler)[inside] == pytest.approx(np.arange(len(sizing.scaler))[inside], abs=0.3)
    assert (np.diff(sizing.scaler) > 0).all()
    assert sizing.size_at([scan_of(123.4)]) == pytest.approx([123.4], abs=0.02)


@each_row("lost", [(20,), (600, 580), (250,), (120, 340, 500)])
def test_missing_fragments_are_told(lost: tuple[int, ...]) -> None:
    signal = traces(GENOTYPE)
    for size in lost:
        add_peak(signal[4], float(scan_of(size)), -800)
    sizing = size_run(run_of(signal))
    assert sizing.missing_bp == tuple(sorted(lost))
    assert set(LIZ_600) - set(sizing.sizes_bp) == set(lost)
    assert sizing.size_at(scan_of([150, 450])) == pytest.approx([150, 450], abs=0.05)


def test_pull_up_and_spikes_are_no_fragments() -> None:
    signal = traces(GENOTYPE)
    for size in (33, 151, 307, 450, 507):
        add_peak(signal[4], float(scan_of(size)), 500)
    assert size_run(run_of(signal)).sizes_bp.tolist() == LIZ_600
    assert size_run(run_of(signal)).scans == pytest.approx(scan_of(LIZ_600), abs=0.2)


def test_a_low_peak_beside_a_lost_fragment_is_not_it() -> None:
    signal = traces(GENOTYPE)
    for size in (300, 600):
        add_peak(signal[4], float(scan_of(size)), -800)
        add_peak(signal[4], float(scan_of(size + 0.4)), 60)
    assert size_run(run_of(signal)).missing_bp == (300, 600)


def test_a_run_without_size_standard_is_refused() -> None:
    signal = traces(GENOTYPE)
    signal[4] = np.random.default_rng(1).normal(30, 3, signal.shape[1])
    with pytest.raises(SizingError, match="'GS600 LIZ' is not found: expected at least 29 of 36 fragments"):
        size_run(run_of(signal))


def test_another_standard_than_the_one_named_is_refused() -> None:
    with pytest.raises(SizingError, match=r"not found|smooth curve"):
        size_run(run_of(traces(GENOTYPE), standard="GS500 LIZ"), rules=SizingRules(max_residual_bp=0.5))


def test_fragments_on_no_smooth_curve_are_refused() -> None:
    signal = traces(GENOTYPE)
    add_peak(signal[4], float(scan_of(300)), -800)
    add_peak(signal[4], float(scan_of(301.1)), 800)
    with pytest.raises(SizingError, match=r"smooth curve: expected at most 0.5 bp from it, got [01]\.\d\d bp at 300"):
        size_run(run_of(signal), rules=SizingRules(max_residual_bp=0.5))
    assert 300 in size_run(run_of(signal), rules=SizingRules(max_residual_bp=5)).sizes_bp


def test_a_peak_that_bends_the_curve_is_no_fragment() -> None:
    signal = traces(GENOTYPE)
    add_peak(signal[4], float(scan_of(300)), -800)
    add_peak(signal[4], float(scan_of(303)), 800)
    assert size_run(run_of(signal)).missing_bp == (300,)


def test_saturated_fragments_are_counted() -> None:
    signal = traces(GENOTYPE)
    signal[0, int(scan_of(260))] = 40_000
    assert size_run(run_of(signal)).off_scale == 1


@each_row(
    ("name", "n_fragments"),
    [
        ("WEN ILS 500", 21), ("CC5_ILS_500", 21), ("GS600 LIZ+Normalization", 36), ("GS600(60-460)LIZ", 26),
        ("GeneScan 500 LIZ", 16), ("GS500(-250)LIZ", 15), ("GS500ROX", 16), ("ILS600", 22), ("SST-BTO 550", 26),
    ],
)  # fmt: skip
def test_published_standards_are_known_by_name(name: str, n_fragments: int) -> None:
    standard = standard_of(run_of(traces({}), standard=name))
    assert len(standard.sizes_bp) == n_fragments
    assert standard.name == name


def test_the_file_states_its_fragments() -> None:
    settings = "A=1;SizeStandardPeaks=100.0,50.0,75.5,200,300;SizeStandardDyeIndex=2;B=2"
    run = run_of(traces({}), standard="made here", settings=settings)
    assert standard_of(run) == SizeStandard("made here", (50, 75.5, 100, 200, 300))
    assert run.run.size_standard_channel == 2


def test_an_unknown_standard_is_named() -> None:
    with pytest.raises(SizingError, match=r"the size standard is unknown: expected .* got 'mine'"):
        size_run(run_of(traces({}), standard="mine"))
    mine = SizeStandard("mine", tuple(map(float, LIZ_600)))
    assert size_run(run_of(traces({}), standard="mine"), standard=mine).missing_bp == ()


@each_row("sizes", [(), (1, 2, 3), (1, 2, 3, 3, 4, 5), (5, 4, 3, 2, 1), (1, 2, 3, 4, float("inf"))])
def test_a_standard_that_does_not_ascend_is_refused(sizes: tuple[float, ...]) -> None:
    with pytest.raises(SizingError, match="its fragments are unusable"):
        SizeStandard("bad", sizes)


def test_what_is_named_in_a_file_cannot_pass_for_a_setting() -> None:
    run = parse_hid(write_abif([*run_tags(traces({})), pascal("Cmnt", 1, "SizeStandardPeaks=1,2,3")]), "run")
    assert run.run.size_standard_sizes_bp == ()
