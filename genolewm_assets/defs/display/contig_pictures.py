"""Pictures of all contigs side by side: one small panel each, on the same axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import dagster as dg
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from genolewm_assets.defs.display.pictures import BLUE, GREEN, VERMILION, coverage, embed_figure, new_figure, style_axes
from genolewm_assets.genome import IntervalArray

#: The 25 contigs of the human genome are four rows.
_COLUMNS, _BINS = 7, 25
_PANEL_PT, _BELOW_ONE = 8.5, 0.7

T = TypeVar("T")


def draw_by_contig(
    contigs: Sequence[str],
    read: Callable[[str], npt.NDArray[np.float64] | None],
    *,
    title: str,
    limits: tuple[float, float] = (0.0, 1.0),
    log: bool = False,
) -> dg.MetadataValue:
    """Draw the distribution of a figure in each contig, with its median.

    Parameters
    ----------
    read
        Returns the values of a contig, float64, shape (items,); None if it is not published.
    title
        What the values are.
    limits
        Ends of the axis of values.
    log
        Whether the axis of counts is logarithmic.
    """

    def draw(axes: Axes, found: npt.NDArray[np.float64]) -> str:
        counts, edges = np.histogram(found, bins=_BINS, range=limits)
        axes.stairs(counts, edges, baseline=_BELOW_ONE if log else 0, fill=True, color=GREEN)
        axes.set(xlim=limits, **({"yscale": "log"} if log else {}))
        if log:
            axes.set_ylim(bottom=_BELOW_ONE)
        if not len(found):
            return "none"
        axes.axvline(float(np.median(found)), color=VERMILION, linewidth=1)
        return f"{np.median(found):.2g}"

    return _draw_panels(contigs, read, draw, title=f"{title} by contig, with the median")


def draw_coverages(
    contigs: Sequence[str], read: Callable[[str], IntervalArray | None], *, title: str
) -> dg.MetadataValue:
    """Draw the share of 200 bins along each contig that windows cover; ``read`` returns the windows of a contig."""

    def draw(axes: Axes, found: IntervalArray) -> str:
        shares, edges = coverage(found)
        axes.stairs(shares, edges / edges[-1], fill=True, color=BLUE)
        axes.set(xlim=(0, 1), ylim=(0, 1.05))
        return f"{100 * float(np.average(shares, weights=np.diff(edges))):.0f} %"

    return _draw_panels(contigs, read, draw, title=f"{title} along each contig, and in all")


def _draw_panels(
    contigs: Sequence[str], read: Callable[[str], T | None], draw: Callable[[Axes, T], str], *, title: str
) -> dg.MetadataValue:
    """Draw one panel per contig; ``draw`` returns the figure that its title states."""
    columns = min(_COLUMNS, max(1, len(contigs)))
    rows = -(-max(1, len(contigs)) // columns)
    figure, said = new_figure(0.6 + max(0.65 * rows, 0.9), title), dict[str, str]()
    panels = list(figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat)
    for axes in panels[len(contigs) :]:
        axes.set_axis_off()
    for axes, contig in zip(panels, contigs, strict=False):
        style_axes(axes)
        values = read(contig)
        said[contig] = "not built" if values is None else draw(axes, values)
        axes.set_xticks(axes.get_xlim(), [f"{end:g}" for end in axes.get_xlim()])
        axes.set_title(f"{contig} {said[contig]}", fontsize=_PANEL_PT, loc="left")
    return embed_figure(figure, f"{title}: " + ", ".join(f"{name} {text}" for name, text in said.items()))
