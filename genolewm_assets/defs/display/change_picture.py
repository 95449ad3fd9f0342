"""Pictures of ClinVar releases: classes before and after one, and four figures, or the scores, over all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.patches import Rectangle

from genolewm_assets.defs.display.pictures import (
    BLUE,
    GREEN,
    GREY,
    LABEL_COLOURS,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    bare_frame,
    embed_figure,
    ink_on,
    new_figure,
)
from genolewm_assets.errors import counted
from genolewm_assets.genome import CLASSES
from genolewm_assets.variants import Int64s

#: From nearly white to blue, so that counts differ in lightness and can be read without colour vision.
_SHADES = LinearSegmentedColormap.from_list("shades", ["#E6F1F8", BLUE])
_KEPT = "#E3E3E3"
_ROWS, _COLUMNS = (*CLASSES, "added"), (*CLASSES, "removed")


def draw_transitions(matrix: Int64s, *, earlier: str, later: str) -> dg.MetadataValue:
    """Draw the matrix of classes, earlier by later, shaded by the logarithm of the count.

    Parameters
    ----------
    matrix
        Allele counts, int64, shape (7, 7), as :func:`~genolewm_assets.variants.changes.transitions` returns them. Rows
        are the classes in the earlier release and ``added``, columns those in the later release and ``removed``.
        Alleles that kept their class (the diagonal) are grey: all other counts would look white beside theirs.
    """
    moved = matrix - np.diag(np.diag(matrix))
    added, removed, reclassified = (int(part.sum()) for part in (matrix[-1], matrix[:, -1], moved[:-1, :-1]))
    title = f"{counted(added, 'allele')} added, {removed:,} removed, {reclassified:,} reclassified"
    figure = new_figure(3.6, title)
    axes = figure.add_subplot()
    scale = np.log(max(2, int(moved.max())))
    for row, column in np.argwhere(matrix).tolist():
        count = int(matrix[row, column])
        colour = _KEPT if row == column else to_hex(_SHADES(np.log(count) / scale))
        axes.add_patch(Rectangle((column - 0.48, row - 0.46), 0.96, 0.92, facecolor=colour))
        axes.text(column, row, f"{count:,}", ha="center", va="center", fontsize=8.5, color=ink_on(colour))
    _name_classes(axes)
    axes.set_xlabel(f"class in {later} (grey: kept its class)", fontsize=9)
    axes.set_ylabel(f"class in {earlier}", fontsize=9)
    return embed_figure(figure, f"{earlier} to {later}: {title}")


def _name_classes(axes: Axes) -> None:
    """Label rows and columns with the classes, and mark each class with its colour."""
    n, at = len(CLASSES), np.arange(len(CLASSES))
    axes.set(xlim=(-0.5, n + 0.5), ylim=(n + 0.5, -0.5))
    axes.set_xticks(range(n + 1), _COLUMNS)
    axes.set_yticks(range(n + 1), _ROWS)
    axes.tick_params(length=0, pad=10, labelsize=8.5)
    axes.spines[:].set_visible(False)
    colours = [LABEL_COLOURS[name] for name in CLASSES]
    for x, y in ((at, np.full(n, n + 0.68)), (np.full(n, -0.6), at)):
        axes.scatter(x, y, c=colours, marker="s", s=26, clip_on=False)


#: Title of each part, and its lines: figure of a release, and colour.
_PARTS: Mapping[str, Mapping[str, str]] = {
    "alleles by class": {"pathogenic": VERMILION, "uncertain": PURPLE, "benign": BLUE},
    "alleles on benches": {"bench_alleles": ORANGE},
    "windows held out": {"held_out_windows": GREEN},
    "alleles that change sides": {"to_training": SKY, "from_training": VERMILION},
}


def draw_releases(releases: Sequence[str], figures: Sequence[Mapping[str, int]]) -> dg.MetadataValue:
    """Draw four figures, by name, over some releases, oldest first; a missing figure leaves a gap in its line."""
    figure = new_figure(4.2)
    for axes, (title, lines) in zip(figure.subplots(2, 2, sharex=True).flat, _PARTS.items(), strict=True):
        _draw(axes, title, lines, figures)
    for axes in figure.axes[2:]:
        axes.set_xticks(range(len(releases)), releases, rotation=40, ha="right", fontsize=8.5)
    newest = figures[-1]
    names = [name for lines in _PARTS.values() for name in lines if name in newest]
    told = ", ".join(f"{name.replace('_', ' ')} {newest[name]:,}" for name in names)
    return embed_figure(
        figure, f"{len(releases)} releases; {releases[-1]}: {told or 'nothing is published'}", decimals=1
    )


def _draw(axes: Axes, title: str, lines: Mapping[str, str], figures: Sequence[Mapping[str, int]]) -> None:
    for name, colour in lines.items():
        values = [each.get(name, float("nan")) for each in figures]
        axes.plot(values, color=colour, marker="o", markersize=4, label=name.replace("_", " "))
    axes.set_title(title, fontsize=9, loc="left")
    axes.set_ylim(bottom=0)
    bare_frame(axes)
    if len(lines) > 1:
        axes.legend(fontsize=8, frameon=False, loc="best")


#: Colours of the models of an evaluation.
_MODEL_COLOURS = {"mean_change": GREY, "linear": BLUE, "residual": ORANGE, "zero_shot": GREEN}


def draw_scores(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> dg.MetadataValue:
    """Draw the AUROC of each model with its interval, by holdout, over releases, oldest first.

    ``rows``: rows of ``EVALUATION`` by release. What tells nothing (``no_change``) is the dashed line at a half.
    """
    newest = [row for row in list(rows.values())[-1] if row["auroc"] is not None and row["model"] in _MODEL_COLOURS]
    holdouts = list(dict.fromkeys(row["holdout"] for row in newest)) or ["no bench"]
    figure = new_figure(1.3 + 1.5 * len(holdouts))
    for axes, holdout in zip(
        figure.subplots(len(holdouts), 1, sharex=True, squeeze=False)[:, 0], holdouts, strict=True
    ):
        for number, (model, colour) in enumerate(_MODEL_COLOURS.items()):
            found = [
                next((row for row in each if (row["holdout"], row["model"]) == (holdout, model)), {})
                for each in rows.values()
            ]
            middle, low, high = (
                np.array([row.get(name) for row in found], dtype=float) for name in ("auroc", "auroc_low", "auroc_high")
            )
            away = np.nan_to_num(np.stack((middle - low, high - middle))).clip(0)
            at = np.arange(len(found)) + 0.09 * (number - 1.5)
            axes.errorbar(at, middle, away, color=colour, marker="o", markersize=4, capsize=2, label=model)
        axes.axhline(0.5, color=GREY, linestyle="--", linewidth=0.8)
        axes.set_title(holdout, fontsize=9, loc="left")
        axes.set(ylim=(0, 1.02), ylabel="AUROC")
        bare_frame(axes)
    figure.axes[-1].set_xticks(range(len(rows)), list(rows), rotation=40, ha="right", fontsize=8.5)
    figure.legend(
        *figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=8
    )
    told = ", ".join(f"{row['holdout']} {row['model']} {row['auroc']:.3f}" for row in newest)
    return embed_figure(
        figure, f"AUROC by holdout, {len(rows)} releases; {list(rows)[-1]}: {told or 'none'}", decimals=1
    )
