"""Annotations as masks over the points of a profile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from genolewm_assets.errors import ConfigurationError, InputError
from genolewm_assets.forensic.dataset.annotations import AlleleAnnotation, SpanAnnotation
from genolewm_assets.forensic.panels import Panel

Mask = npt.NDArray[np.int8]
Adjustment = Literal["top", "complete"]
#: A peak that is lower is no reason for a label, and a labelled peak ends where the trace falls below it.
MIN_PEAK_RFU = 40


def check_adjustment(name: str | None) -> None:
    """Raise :class:`ConfigurationError` unless ``name`` is an adjustment or None."""
    if name not in {None, "top", "complete"}:
        raise ConfigurationError(
            "adjustment_of_annotations", "is unknown", expected="'top', 'complete' or None", got=repr(name)
        )


def place_alleles(
    annotation: AlleleAnnotation, panel: Panel, scaler: npt.ArrayLike, channels: Sequence[int]
) -> tuple[list[tuple[int, int, int]], int]:
    """Return where the bins of an annotation's alleles are.

    Parameters
    ----------
    panel
        Panel of the kit, moved by the ladder of the profile's run.
    scaler
        Size in base pairs at each point, shape (n_points,).
    channels
        Channel of each row of the profile.

    Returns
    -------
    list of tuple
        Row, first point, and point after the last one: the points nearest to the limits of the bin, at least one.
    int
        Number of alleles that are in no bin, or in the bin of a locus that the panel lacks; off-ladder alleles too.
    """
    sizes = np.asarray(scaler, np.float64)
    bins = {(locus.name, each.allele): (locus.channel, each) for locus in panel.loci for each in locus.bins}
    places, unplaced = [], 0
    for name, alleles in annotation.loci.items():
        for allele in alleles:
            if (name, allele) not in bins:
                unplaced += 1
                continue
            channel, own = bins[name, allele]
            first, end = (
                int(np.abs(sizes - limit).argmin()) for limit in (own.size_bp - own.left_bp, own.size_bp + own.right_bp)
            )
            places.append((channels.index(channel), first, max(end, first + 1)))
    return places, unplaced


def mask_of_bins(places: Sequence[tuple[int, int, int]], shape: tuple[int, int]) -> Mask:
    """Return 1 at every point of the bins and 0 elsewhere: int8, shape (n_rows, n_points)."""
    mask = np.zeros(shape, np.int8)
    for row, first, end in places:
        mask[row, first:end] = 1
    return mask


def mask_of_peaks(places: Sequence[tuple[int, int, int]], data: npt.NDArray[np.int16], adjustment: Adjustment) -> Mask:
    """Return 1 at the peak of each bin.

    Parameters
    ----------
    places
        Bins, as :func:`place_alleles` returns them.
    data
        The profile: int16, shape (n_rows, n_points).
    adjustment
        ``top``: the highest point of the peak; ``complete``: all points round it that reach 40 RFU.

    Returns
    -------
    numpy.ndarray
        int8, the shape of ``data``. A bin without a peak of 40 RFU has no 1.

    Notes
    -----
    A bin that holds only the slope of a peak has its peak where the slope ends. Bins are looked at one by one, so two
    alleles whose bins touch are two peaks.
    """
    mask = np.zeros(data.shape, np.int8)
    for row, first, end in places:
        trace = data[row]
        top = _top_of(trace, first, end)
        if trace[top] < MIN_PEAK_RFU:
            continue
        low, high = (top, top) if adjustment == "top" else _peak_at(trace, top)
        mask[row, low : high + 1] = 1
    return mask


def _top_of(trace: npt.NDArray[np.int16], first: int, end: int) -> int:
    """Return the highest point of a bin, or the top of the slope that it lies on."""
    top = first + int(trace[first:end].argmax())
    while True:
        low, high = max(top - 1, 0), min(top + 1, len(trace) - 1)
        higher = low if trace[low] > trace[high] else high
        if trace[higher] <= trace[top]:
            return top
        top = higher


def _peak_at(trace: npt.NDArray[np.int16], top: int) -> tuple[int, int]:
    """Return the first and last point round a top that reach :data:`MIN_PEAK_RFU`."""
    below = np.flatnonzero(trace < MIN_PEAK_RFU)
    at = int(np.searchsorted(below, top))
    return (int(below[at - 1]) + 1 if at else 0), (int(below[at]) - 1 if at < len(below) else len(trace) - 1)


def mask_of_spans(annotation: SpanAnnotation, shape: tuple[int, int], channels: Sequence[int], where: str) -> Mask:
    """Return the category of each point: int8, shape (n_rows, n_points); 0 where no span is, of two spans the later.

    Raises
    ------
    InputError
        If a span lies outside of the profile, or its dye is no row of it.
    """
    mask = np.zeros(shape, np.int8)
    for span in annotation.spans:
        if span.channel not in channels or not 0 <= span.first <= span.last < shape[1]:
            raise InputError(
                where,
                "a span lies outside of the profile",
                expected=f"channels {', '.join(map(str, channels))} and points 0 to {shape[1] - 1}",
                got=f"channel {span.channel}, points {span.first} to {span.last}",
                remedy="Check that the annotation was made on the same grid",
            )
        mask[channels.index(span.channel), span.first : span.last + 1] = span.category
    return mask
