"""Pictures of values along the mitochondrial circle, and of the haplogroups in each split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import dagster as dg
import numpy as np
import numpy.typing as npt

from genolewm_assets.defs.display.pictures import BELOW, BLUE, PART_COLOURS, SKY, bare_frame, embed_figure, new_figure
from genolewm_assets.errors import counted

#: Sectors of the circle; about 69 positions each on human mitochondrial DNA.
_SECTORS = 240
_SIZE_IN, _HOLE = 4.2, 0.6
_TITLE_PT, _TEXT_PT = 10.0, 8.5


def draw_on_circle(values: npt.NDArray[np.float64], *, title: str, unit: str) -> dg.MetadataValue:
    """Draw the mean of values, one per position (NaN counts as 0), in 240 sectors of the circle, clockwise."""
    figure = new_figure(_SIZE_IN)
    figure.suptitle(title, fontsize=_TITLE_PT)
    axes = figure.add_subplot(projection="polar")
    axes.set_axis_off()
    known = np.nan_to_num(np.asarray(values, dtype=np.float64))
    if not known.any():
        axes.text(0, 0, "nothing along the circle", ha="center", va="center", fontsize=_TEXT_PT)
        return embed_figure(figure, f"{title}: nothing")
    edges = np.linspace(0, len(known), _SECTORS + 1).astype(np.int64)
    means = np.add.reduceat(np.append(known, 0.0), edges[:-1]) / np.maximum(np.diff(edges), 1)
    top = float(means.max())
    axes.set(theta_offset=np.pi / 2, theta_direction=-1, ylim=(0, 1))
    # One outline: 240 separate bars would take some hundred kilobytes of SVG.
    angles = np.repeat(2 * np.pi * edges / len(known), 2)[1:-1]
    axes.fill_between(angles, _HOLE, _HOLE + np.repeat((1 - _HOLE) * means / top, 2), color=BLUE, linewidth=0)
    axes.plot(np.linspace(0, 2 * np.pi, 200), np.full(200, _HOLE), color=SKY, linewidth=1)
    # No label in the last kilobase: it would overlap the first label.
    for place in range(0, len(known) - 1_000, 2_000):
        angle = 2 * np.pi * place / len(known)
        axes.text(angle, _HOLE - 0.08, f"{place // 1_000} kb", ha="center", va="center", fontsize=_TEXT_PT)
    peak = int(means.argmax())
    peak_text = f"up to {top:.3g}\n{unit}\nat {edges[peak] + 1:,} to {edges[peak + 1]:,}"
    axes.text(0, 0, peak_text, ha="center", va="center", fontsize=_TEXT_PT)
    return embed_figure(figure, f"{title}: {peak_text}".replace("\n", " "))


def draw_haplogroups(haplogroups: Sequence[str | None], split: Sequence[str]) -> dg.MetadataValue:
    """Draw the number of genomes of each haplogroup (None: unknown), stacked by split."""
    named = [name or "none" for name in haplogroups]
    sizes = Counter(named)
    names = sorted(sizes, key=lambda name: (-sizes[name], name))
    title = f"{counted(len(named), 'genome')} in {counted(len(names), 'haplogroup')}"
    figure = new_figure(2.6, title)
    axes = figure.add_subplot()
    bare_frame(axes)
    floor = np.zeros(len(names))
    placed = Counter(zip(named, split, strict=True))
    for side in ("train", "validation", "test"):
        heights = np.array([placed[name, side] for name in names], dtype=np.float64)
        axes.bar(range(len(names)), heights, bottom=floor, color=PART_COLOURS[side], label=side)
        floor += heights
    axes.set_xticks(range(len(names)), names)
    axes.set_ylabel("genomes", fontsize=_TEXT_PT)
    if names:
        figure.legend(loc=BELOW, ncols=3, frameon=False, fontsize=_TEXT_PT)
    return embed_figure(figure, f"{title}: " + ", ".join(f"{name} {sizes[name]:,}" for name in names))
