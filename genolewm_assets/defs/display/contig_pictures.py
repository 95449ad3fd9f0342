"""Pictures of all contigs side by side: one small panel each, on the same scale."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import dagster as dg
import numpy as np
import numpy.typing as npt

from genolewm_assets.defs.display.pictures import BLUE, GREEN, GREY, VERMILION, coverage, embed_figure, new_figure
from genolewm_assets.genome import IntervalArray

#: The 25 contigs of the human genome are four rows.
_COLUMNS, _BINS, _PLACES = 7, 25, 40
#: Share of its place that a panel fills, and size of its title in points.
_WIDE, _HIGH, _PANEL_PT = 0.88, 0.62, 8.5

#: Heights of the bins of a panel, the place of a mark from 0 to 1, and the figure in the title.
_Panel: TypeAlias = tuple[npt.NDArray[np.float64], float | None, str]


def draw_by_contig(
    values: Mapping[str, npt.NDArray[np.float64] | None],
    *,
    title: str,
    limits: tuple[float, float] = (0.0, 1.0),
    log: bool = False,
) -> dg.MetadataValue:
    """Draw the distribution of a figure in each contig, with its median.

    Parameters
    ----------
    values
        By contig, float64, shape (items,); None for a contig that is not published.
    limits
        Least and greatest value that is drawn.
    log
        Whether counts are drawn as logarithms, instead of shares of the contig's items.
    """

    def summarise(found: npt.NDArray[np.float64]) -> _Panel:
        counts = np.histogram(found, bins=_BINS, range=limits)[0].astype(np.float64)
        heights = np.log10(1 + counts) if log else counts / max(1, len(found))
        if not len(found):
            return heights, None, "none"
        middle = float(np.median(found))
        return heights, (middle - limits[0]) / (limits[1] - limits[0]), f"{middle:.2g}"

    scale = f"{limits[0]:g} to {limits[1]:g}{', log of counts' if log else ''}; the line is the median"
    panels = {name: None if found is None else summarise(found) for name, found in values.items()}
    return _draw_panels(panels, title=f"{title} by contig ({scale})", colour=GREEN)


def draw_coverages(windows: Mapping[str, IntervalArray | None], *, title: str) -> dg.MetadataValue:
    """Draw the share of 40 bins along each contig that its windows cover; None for one that is not published."""

    def summarise(found: IntervalArray) -> _Panel:
        shares, edges = coverage(found, bins=_PLACES)
        return shares, None, f"{100 * float(np.average(shares, weights=np.diff(edges))):.0f} %"

    panels = {name: None if found is None else summarise(found) for name, found in windows.items()}
    return _draw_panels(panels, title=f"{title} along each contig, and in all", colour=BLUE)


def _draw_panels(panels: Mapping[str, _Panel | None], *, title: str, colour: str) -> dg.MetadataValue:
    """Draw one panel per contig in one pair of axes: 25 pairs would take 100 kilobytes."""
    top = max((panel[0].max(initial=0.0) for panel in panels.values() if panel), default=0.0) or 1.0
    columns = min(_COLUMNS, max(1, len(panels)))
    rows = -(-max(1, len(panels)) // columns)
    figure = new_figure(0.4 + 0.65 * max(rows, 1.5), title)
    axes = figure.add_subplot()
    axes.set(xlim=(0, columns), ylim=(-rows, 0))
    axes.set_axis_off()
    said = {contig: panel[2] if panel else "not built" for contig, panel in panels.items()}
    for n, (contig, panel) in enumerate(panels.items()):
        left, floor = n % columns, -(n // columns) - 0.95
        axes.text(left, floor + _HIGH + 0.08, f"{contig} {said[contig]}", fontsize=_PANEL_PT)
        axes.plot([left, left + _WIDE], [floor, floor], color=GREY, linewidth=0.8)
        if panel is None:
            continue
        heights, mark, _ = panel
        edges = left + _WIDE * np.linspace(0, 1, len(heights) + 1)
        axes.stairs(floor + _HIGH * heights / top, edges, baseline=floor, fill=True, color=colour)
        if mark is not None:
            axes.plot([left + _WIDE * mark] * 2, [floor, floor + _HIGH], color=VERMILION, linewidth=1)
    return embed_figure(figure, f"{title}: {', '.join(f'{name} {text}' for name, text in said.items())}", decimals=1)
