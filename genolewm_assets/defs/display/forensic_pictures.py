"""Pictures of a run folder that show no donor: the ladder as an electropherogram, the quality of profiles by counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from genolewm_assets.defs.display.pictures import (
    BELOW,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    VERMILION,
    bare_frame,
    embed_figure,
    new_figure,
)
from genolewm_assets.errors import counted

_DYE_IN, _TEXT_PT, _SMALL_PT = 0.85, 8.5, 7.0
_COLOURS = (BLUE, GREEN, "#000000", VERMILION, ORANGE, PURPLE)
#: Places along the axis, of each of which the highest value is drawn: lines of every scan would take a megabyte.
_PLACES = 300

Row = Mapping[str, Any]


def draw_ladder(traces: Sequence[Row], alleles: Sequence[Row], *, threshold_rfu: float, run: str) -> dg.MetadataValue:
    """Draw the dyes of the run's first ladder over base pairs, with its called alleles and the threshold of calls.

    Traces and alleles are rows of ``FORENSIC_LADDER_TRACES`` and ``FORENSIC_LADDER_ALLELES``.
    """
    file = min((str(row["file"]) for row in traces), default="")
    dyes = sorted((row for row in traces if row["file"] == file), key=lambda row: int(row["channel"]))
    own = [row for row in alleles if row["file"] == file]
    found = [row for row in own if row["size_bp"] is not None]
    loci = len({row["locus"] for row in own})
    title = f"Ladder of {run}: {len(found):,} of {counted(len(own), 'allele')} of {counted(loci, 'locus', 'loci')}"
    figure = new_figure(0.6 + _DYE_IN * max(len(dyes), 1), title)
    if not dyes:
        axes = figure.add_subplot()
        axes.set_axis_off()
        axes.text(0.5, 0.5, "no ladder", ha="center", va="center", fontsize=_TEXT_PT)
        return embed_figure(figure, f"{title}: no ladder")
    grid = figure.subplots(len(dyes), 1, sharex=True, squeeze=False)[:, 0]
    for axes, dye in zip(grid, dyes, strict=True):
        sizes = np.array([row["size_bp"] for row in found if row["channel"] == dye["channel"]])
        _draw_dye(axes, dye, sizes, threshold_rfu)
    grid[-1].set_xlabel("size (bp)", fontsize=_TEXT_PT)
    standard = next((dye["channel"] for dye in dyes if dye["is_size_standard"]), None)
    said = f"{title}, marked above the dyes; size standard in channel {standard}; dashed: {threshold_rfu:g} RFU"
    return embed_figure(figure, said, decimals=1)


def _draw_dye(axes: Axes, dye: Row, sizes: npt.NDArray[np.float64], threshold_rfu: float) -> None:
    sized, rfu = np.asarray(dye["size_bp"], np.float64), np.asarray(dye["rfu"], np.float64)
    edges = np.linspace(sized[0], sized[-1], _PLACES + 1)
    starts = np.searchsorted(sized, edges[:-1])
    top = np.maximum.reduceat(np.append(rfu, 0.0), starts)
    colour = _COLOURS[(int(dye["channel"]) - 1) % len(_COLOURS)]
    axes.plot((edges[:-1] + edges[1:]) / 2, np.maximum(top, 0), color=colour, linewidth=0.7)
    highest = max(float(top.max()), threshold_rfu)
    axes.axhline(threshold_rfu, color=GREY, linewidth=0.7, linestyle="--")
    # One line with gaps: single marks would take four times the bytes.
    ticks = np.tile([1.06 * highest, 1.18 * highest, np.nan], len(sizes))
    axes.plot(np.repeat(sizes, 3), ticks, color=colour, linewidth=0.7)
    axes.set(ylim=(0, 1.22 * highest), xlim=(edges[0], edges[-1]))
    bare_frame(axes, _SMALL_PT)
    label = "standard" if dye["is_size_standard"] else f"dye {dye['channel']}"
    axes.set_ylabel(f"{label}\nRFU", fontsize=_SMALL_PT)


def draw_run_quality(profiles: Sequence[Row], *, limit_bp: float, run: str) -> dg.MetadataValue:
    """Draw how well the size standard fits, up to the residual accepted, and the peaks by what they are, by profile."""
    saturated = sum(row["saturated_scans"] > 0 for row in profiles)
    worst = max((float(row["max_residual_bp"]) for row in profiles), default=0.0)
    title = f"{counted(len(profiles), 'profile')} of {run}, {saturated:,} saturated"
    figure = new_figure(3.6, title)
    above, below = figure.subplots(2, 1, sharex=True)
    places = np.arange(len(profiles))
    above.plot(places, [row["max_residual_bp"] for row in profiles], "o", color=BLUE, markersize=3)
    above.axhline(limit_bp, color=VERMILION, linewidth=1)
    above.set(ylim=(0, 1.2 * max(limit_bp, worst)))
    above.set_ylabel("residual (bp)", fontsize=_TEXT_PT)
    counts = {
        "called": (GREEN, [row["peaks_called"] for row in profiles]),
        "not called": (GREY, [row["peaks_listed"] - row["peaks_called"] for row in profiles]),
    }
    floor = np.zeros(len(profiles))
    for name, (colour, heights) in counts.items():
        below.bar(places, heights, bottom=floor, color=colour, label=name, width=0.8)
        floor += np.array(heights, np.float64)
    off_scale = [row["peaks_off_scale"] for row in profiles]
    below.plot(places, off_scale, "v", color=VERMILION, markersize=3, label="off scale")
    below.set_ylabel("peaks", fontsize=_TEXT_PT)
    below.set_xlabel("row of the store", fontsize=_TEXT_PT)
    figure.legend(loc=BELOW, frameon=False, fontsize=_SMALL_PT, ncols=3)
    for axes in (above, below):
        bare_frame(axes, _SMALL_PT)
    said = f"{title}; residuals of the size standard up to {worst:.3f} bp, limit {limit_bp:g} bp"
    return embed_figure(figure, said)
