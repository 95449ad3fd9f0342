"""Annotations as masks."""

from __future__ import annotations

import numpy as np
import pytest

from genolewm_assets.errors import ConfigurationError, InputError
from genolewm_assets.forensic.dataset.annotations import (
    AlleleAnnotation,
    Span,
    SpanAnnotation,
    mask_of_bins,
    mask_of_peaks,
    mask_of_spans,
    place_alleles,
)
from genolewm_assets.forensic.dataset.profiles import ProfileRules
from genolewm_assets.forensic.panels import Bin, Locus, Panel

SCALER = np.arange(90, 130, 0.1)
_A = Locus("A", 1, 95, 125, 4, (Bin("7", 100, 0.5, 0.4, True), Bin("8", 104, 0.5, 0.5, True)))
_B = Locus("B", 3, 95, 125, 4, (Bin("7", 100, 0.01, 0.01, True), Bin("9", 100.9, 0.5, 0.5, False)))
PANEL = Panel("made", (_A, _B))
CHANNELS = (1, 2, 3)


def peak(trace: np.ndarray, at: int, height: int, width: float = 3.0) -> None:
    trace += np.round(height * np.exp(-(((np.arange(len(trace)) - at) / width) ** 2) / 2)).astype(trace.dtype)


def test_a_bin_is_labelled_from_limit_to_limit() -> None:
    annotation = AlleleAnnotation({"A": ("7", "8"), "B": ("7",)})
    places, unplaced = place_alleles(annotation, PANEL, SCALER, CHANNELS)
    assert (places, unplaced) == ([(0, 95, 104), (0, 135, 145), (2, 100, 101)], 0)
    mask = mask_of_bins(places, (3, len(SCALER)))
    assert mask.dtype == np.int8
    assert mask.sum() == 9 + 10 + 1
    assert mask[1].sum() == 0
    assert mask[0, 94:105].tolist() == [0, *[1] * 9, 0]


def test_alleles_without_bin_are_counted() -> None:
    annotation = AlleleAnnotation({"A": ("OL", "7.1", "8"), "C": ("7",)})
    assert place_alleles(annotation, PANEL, SCALER, CHANNELS) == ([(0, 135, 145)], 3)


def test_the_peak_in_a_bin_is_labelled() -> None:
    data = np.zeros((3, len(SCALER)), np.int16)
    peak(data[0], 99, 1_000)
    places, _ = place_alleles(AlleleAnnotation({"A": ("7",)}), PANEL, SCALER, CHANNELS)
    top = mask_of_peaks(places, data, "top")
    assert np.argwhere(top).tolist() == [[0, 99]]
    complete = mask_of_peaks(places, data, "complete")
    assert (complete[0] == (data[0] >= 40)).all()
    assert complete[1:].sum() == 0


def test_a_slope_leads_to_its_top() -> None:
    for at in (93, 106):
        data = np.zeros((3, len(SCALER)), np.int16)
        peak(data[0], at, 1_000)
        assert np.argwhere(mask_of_peaks([(0, 95, 104)], data, "top")).tolist() == [[0, at]]


def test_a_flat_top_has_one_label() -> None:
    data = np.zeros((1, 60), np.int16)
    data[0, 20:26] = (300, 500, 500, 500, 500, 100)
    assert np.argwhere(mask_of_peaks([(0, 18, 28)], data, "top")).tolist() == [[0, 21]]
    assert np.flatnonzero(mask_of_peaks([(0, 22, 23)], data, "complete")[0]).tolist() == list(range(20, 26))


def test_low_peaks_are_not_labelled_and_edges_end_a_peak() -> None:
    data = np.zeros((2, 40), np.int16)
    data[0, 10] = 39
    data[1] = 500
    assert mask_of_peaks([(0, 8, 12)], data, "complete").sum() == 0
    assert mask_of_peaks([(1, 8, 12)], data, "complete").sum() == 40


def test_bins_that_touch_are_two_peaks() -> None:
    data = np.zeros((1, 60), np.int16)
    peak(data[0], 20, 2_000, 2.0)
    peak(data[0], 29, 900, 2.0)
    places = [(0, 16, 25), (0, 25, 34)]
    assert np.argwhere(mask_of_peaks(places, data, "top")).tolist() == [[0, 20], [0, 29]]


def test_spans_have_their_category() -> None:
    annotation = SpanAnnotation((Span(3, 0, 4, 1), Span(1, 5, 5, 2), Span(3, 4, 6, 7)))
    mask = mask_of_spans(annotation, (3, 8), CHANNELS, "a.hid")
    assert mask.tolist() == [[0, 0, 0, 0, 0, 2, 0, 0], [0] * 8, [1, 1, 1, 1, 7, 7, 7, 0]]


@pytest.mark.parametrize("span", [Span(1, 7, 8, 1), Span(6, 0, 1, 1)])
def test_a_span_outside_is_named(span: Span) -> None:
    with pytest.raises(InputError, match=r"a\.hid: a span lies outside of the profile"):
        mask_of_spans(SpanAnnotation((span,)), (3, 8), CHANNELS, "a.hid")


def test_an_unknown_adjustment_is_named() -> None:
    ProfileRules(adjustment_of_annotations="complete")
    with pytest.raises(
        ConfigurationError, match=r"adjustment.*expected one of \(None, 'top', 'complete'\), got 'half'"
    ):
        ProfileRules(adjustment_of_annotations="half")  # type: ignore[arg-type]


def test_annotations_print_no_allele() -> None:
    assert repr(AlleleAnnotation({"A": ("7", "8")})) == "AlleleAnnotation(1 loci)"
    assert repr(SpanAnnotation((Span(1, 0, 1, 1),))) == "SpanAnnotation(1 spans)"
    annotation = AlleleAnnotation({"A": ("7", "8")})
    assert AlleleAnnotation.from_json(annotation.as_json()) == annotation
