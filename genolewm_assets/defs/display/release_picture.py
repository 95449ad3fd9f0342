"""Picture over the releases of a root: alleles by class, bench, windows held out, and what moved between the sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import dagster as dg
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from genolewm_assets.defs.display.pictures import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION, embed_figure

#: Title of each part, and its lines: figure of a release, and colour.
_PARTS: Mapping[str, Mapping[str, str]] = {
    "alleles by class": {"pathogenic": VERMILION, "uncertain": PURPLE, "benign": BLUE},
    "alleles on benches": {"bench_alleles": ORANGE},
    "windows held out": {"held_out_windows": GREEN},
    "alleles that change sides": {"to_training": SKY, "from_training": VERMILION},
}


def draw_releases(releases: Sequence[str], figures: Sequence[Mapping[str, int]]) -> dg.MetadataValue:
    """Draw four figures over some releases; a release without a figure leaves a gap in its line.

    Parameters
    ----------
    releases
        Keys, oldest first; at least one.
    figures
        Numbers of each release, by name.
    """
    figure = Figure(figsize=(560 / 96, 4.2), layout="constrained")
    for axes, (title, lines) in zip(figure.subplots(2, 2, sharex=True).flat, _PARTS.items(), strict=True):
        _draw(axes, title, lines, figures)
    for axes in figure.axes[2:]:
        axes.set_xticks(range(len(releases)), releases, rotation=40, ha="right", fontsize=8.5)
    newest = figures[-1]
    names = [name for lines in _PARTS.values() for name in lines if name in newest]
    told = ", ".join(f"{name.replace('_', ' ')} {newest[name]:,}" for name in names)
    return embed_figure(
        figure, f"{len(releases)} releases; {releases[-1] if releases else 'none'}: {told or 'none built'}"
    )


def _draw(axes: Axes, title: str, lines: Mapping[str, str], figures: Sequence[Mapping[str, int]]) -> None:
    for name, colour in lines.items():
        values = [each.get(name, float("nan")) for each in figures]
        axes.plot(values, color=colour, marker="o", markersize=4, label=name.replace("_", " "))
    axes.set_title(title, fontsize=9, loc="left")
    axes.set_ylim(bottom=0)
    axes.tick_params(labelsize=8.5)
    axes.spines[["top", "right"]].set_visible(False)
    if len(lines) > 1:
        axes.legend(fontsize=8, frameon=False, loc="best")
