"""Pictures shown with a materialisation, in colours that colour-blind readers can tell apart (Okabe and Ito)."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping

import dagster as dg
import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

_BLUE, _ORANGE, _GREEN, _PURPLE, _SKY, _GREY = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#999999"
LABEL_COLOURS = {"P": _ORANGE, "LP": "#D55E00", "LB": _SKY, "B": _BLUE, "VUS": _PURPLE, "OTHER": _GREY}

#: Bins along a contig in the density pictures.
_BINS = 200


def draw_density(positions: npt.NDArray[np.int64], *, length: int, unit: str) -> dg.MetadataValue:
    """Draw how many ``unit`` start in each of 200 bins of a contig; ``positions`` are 0-based."""
    figure, axes = _canvas()
    counts, edges = np.histogram(positions, bins=_BINS, range=(0, max(length, 1)))
    axes.stairs(counts, edges / 1e6, fill=True, color=_BLUE)
    axes.set(xlabel="position (Mbp)", ylabel=f"{unit} per {length / _BINS / 1e3:,.0f} kb")
    return _embed(figure, f"{len(positions):,} {unit} along the contig")


def draw_af_spectrum(af: npt.NDArray[np.float64]) -> dg.MetadataValue:
    """Draw the allele frequency spectrum of a shard, frequencies 0 to 1 on a logarithmic axis of counts."""
    figure, axes = _canvas()
    axes.hist(af, bins=50, range=(0.0, 1.0), color=_GREEN, log=bool(len(af)))
    axes.set(xlabel="allele frequency", ylabel="alleles")
    return _embed(figure, f"allele frequency spectrum of {len(af):,} alleles")


def draw_norms(norms: npt.NDArray[np.float64]) -> dg.MetadataValue:
    """Draw the distribution of the Euclidean norms of block states."""
    figure, axes = _canvas()
    axes.hist(norms, bins=60, color=_PURPLE)
    axes.set(xlabel="norm of a block's state", ylabel="blocks")
    return _embed(figure, f"norms of {len(norms):,} blocks")


def draw_classes_by_stars(counts: Mapping[str, npt.NDArray[np.int64]]) -> dg.MetadataValue:
    """Draw ClinVar classes stacked by review stars; each value is int64, shape (5,), alleles with 0 to 4 stars."""
    figure, axes = _canvas()
    floor = np.zeros(5, dtype=np.int64)
    for label, by_stars in counts.items():
        axes.bar(np.arange(5), by_stars, bottom=floor, label=label, color=LABEL_COLOURS[label])
        floor = floor + by_stars
    axes.set(xlabel="review stars", ylabel="alleles", xticks=range(5))
    axes.legend(ncols=len(counts), frameon=False, fontsize=8)
    return _embed(figure, f"classes of {int(floor.sum()):,} alleles by review stars")


def _canvas() -> tuple[Figure, mpl.axes.Axes]:
    figure = Figure(figsize=(7.0, 2.4), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _embed(figure: Figure, alt: str) -> dg.MetadataValue:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=80)
    return dg.MetadataValue.md(f"![{alt}](data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()})")
