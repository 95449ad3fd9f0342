"""Pictures of a materialisation: SVG embedded in Markdown, as wide as the UI dialog that shows them.

Colours are those of Okabe and Ito, which colour-blind readers can tell apart. The alternative text states the figures.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import dagster as dg
import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from genolewm_assets.errors import counted
from genolewm_assets.genome import IntervalArray

BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#E69F00", "#009E73", "#CC79A7"
VERMILION, SKY, GREY = "#D55E00", "#56B4E9", "#999999"
#: Colours of ClinVar's classes, from pathogenic to benign.
LABEL_COLOURS = {"P": VERMILION, "LP": ORANGE, "VUS": GREY, "OTHER": PURPLE, "LB": SKY, "B": BLUE}
#: Colours of splits and roles.
PART_COLOURS = {"train": GREEN, "validation": ORANGE, "test": BLUE, "not trained on": GREY}

#: Bins along a contig.
_BINS = 200
#: Width of the UI dialog that shows a picture: 560 CSS pixels at 96 to the inch.
_WIDTH_IN = 560 / 96
_TITLE_PT, _TEXT_PT, _SMALL_PT = 10.0, 9.0, 8.5
_EDGE: dict[str, Any] = {"edgecolor": "#333333", "linewidth": 0.5}
#: The font that text is measured with, and a substitute of equal width for machines that lack it.
_FONTS = ["DejaVu Sans", "Verdana"]
#: Place of a legend that covers nothing, whatever is drawn.
BELOW: Final = "outside lower center"
#: Lower end of a logarithmic axis of counts, so that a count of 1 is visible.
_BELOW_ONE = 0.7
#: A part of a bar with a smaller share gets no label, because the text would not fit.
_NARROW = 0.07


def draw_density(positions: npt.NDArray[np.int64], *, unit: str, contig: str) -> dg.MetadataValue:
    """Draw the number of items, named in the plural, in each of 200 bins of a contig, by their 0-based positions."""
    length = int(positions.max(initial=0)) + 1
    figure, axes = _canvas(f"{len(positions):,} {unit} along {contig}")
    if not len(positions):
        return _embed_empty(figure, axes, f"no {unit} on {contig}")
    counts, edges = np.histogram(positions, bins=_BINS, range=(0, length))
    axes.stairs(counts, edges / 1e6, fill=True, color=BLUE)
    axes.set(xlabel="position (Mbp)", ylabel=f"{unit} per {length / _BINS / 1e3:,.1f} kb", xlim=(0, length / 1e6))
    empty = _percent(float(np.mean(counts == 0)))
    return embed_figure(figure, f"{len(positions):,} {unit} along {contig}; {empty} of the bins are empty")


def draw_coverage(windows: IntervalArray, *, contig: str) -> dg.MetadataValue:
    """Draw the share of each of 200 bins of a contig that windows cover, up to the end of the last window."""
    shares, edges = coverage(windows)
    total = _percent(float(np.average(shares, weights=np.diff(edges))), digits=1)
    title = f"{counted(len(windows), 'window')}: {total} of {contig} up to {edges[-1] / 1e6:,.2f} Mbp covered"
    figure, axes = _canvas(title, height_in=2.2)
    if not len(windows):
        return _embed_empty(figure, axes, f"no windows on {contig}")
    axes.stairs(shares, edges / 1e6, fill=True, color=SKY)
    axes.stairs(shares, edges / 1e6, color=BLUE, linewidth=0.8)
    axes.set(xlabel="position (Mbp)", ylabel="share in windows", ylim=(0, 1.05), xlim=(0, edges[-1] / 1e6))
    return embed_figure(figure, title)


def coverage(windows: IntervalArray, *, bins: int = _BINS) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Return the share of each bin that windows cover, and the edges of the bins.

    Returns
    -------
    shares
        float64, shape (n,), 0 to 1. ``n`` is ``bins``, or the end of the last window if that is smaller.
    edges
        0-based positions in bases, int64, shape (n + 1,), from 0 to the end of the last window.
    """
    covered = windows.merge()
    length = int(covered.end.max(initial=1))
    edges = np.unique(np.linspace(0, length, bins + 1).astype(np.int64))
    return covered.overlap_bases(IntervalArray(edges[:-1], edges[1:])) / np.diff(edges), edges


def draw_af_spectrum(af: npt.NDArray[np.float64], *, contig: str) -> dg.MetadataValue:
    """Draw the allele frequency spectrum of a shard in 50 bins from 0 to 1, with a logarithmic axis of counts."""
    rare = _percent(float(np.mean(af < 0.05)) if len(af) else 0.0)
    title = f"{counted(len(af), 'allele')} of {contig}; {rare} with a frequency below 5 %"
    figure, axes = _canvas(title)
    if not len(af):
        return _embed_empty(figure, axes, f"no alleles of {contig}")
    counts, edges = np.histogram(af, bins=50, range=(0.0, 1.0))
    axes.stairs(counts, edges, baseline=_BELOW_ONE, fill=True, color=GREEN)
    axes.set(xlabel="allele frequency", ylabel="alleles (log)", xlim=(0, 1), yscale="log")
    axes.set_ylim(bottom=_BELOW_ONE)
    return embed_figure(figure, title)


def draw_norms(norms: npt.NDArray[np.float64], *, source: str) -> dg.MetadataValue:
    """Draw the distribution of the Euclidean norms of block states, float64, shape (blocks,)."""
    middle = float(np.median(norms)) if len(norms) else 0.0
    title = f"States of {source}: median norm {middle:.4g} over {counted(len(norms), 'block')}"
    figure, axes = _canvas(title)
    if not len(norms):
        return _embed_empty(figure, axes, f"no states of {source}")
    axes.stairs(*np.histogram(norms, bins=60), fill=True, color=GREEN)
    axes.axvline(middle, color=VERMILION, linewidth=1.5)
    axes.annotate(
        "median",
        (middle, 0.94),
        xytext=(4, 0),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        fontsize=_SMALL_PT,
    )
    axes.set(xlabel="norm of a block's state", ylabel="blocks")
    return embed_figure(figure, title)


def draw_classes_by_stars(counts: Mapping[str, npt.NDArray[np.int64]]) -> dg.MetadataValue:
    """Draw the shares of ClinVar's classes by review stars; counts by class are int64, shape (5,), for 0 to 4 stars."""
    totals = np.sum(list(counts.values()), axis=0)
    figure, axes = _canvas("Classes by review stars", height_in=3.2)
    floor = np.zeros(5)
    for label, by_stars in counts.items():
        shares = by_stars / np.maximum(totals, 1)
        axes.bar(np.arange(5), shares, bottom=floor, color=LABEL_COLOURS[label], label=label, width=0.85, **_EDGE)
        for star in np.flatnonzero(shares >= _NARROW).tolist():
            axes.text(
                star,
                floor[star] + shares[star] / 2,
                label,
                ha="center",
                va="center",
                fontsize=_SMALL_PT,
                color=ink_on(LABEL_COLOURS[label]),
            )
        floor += shares
    axes.set(ylabel="share of the alleles", ylim=(0, 1))
    axes.set_xticks(range(5), [f"{counted(star, 'star')}\n{total:,}" for star, total in enumerate(totals)])
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=_SMALL_PT, reverse=True)
    alt_text = ", ".join(f"{counted(star, 'star')} {total:,}" for star, total in enumerate(totals))
    return embed_figure(figure, f"ClinVar classes by review stars; alleles: {alt_text}")


def draw_class_balance(counts: Mapping[str, int]) -> dg.MetadataValue:
    """Draw the number of alleles of each of ClinVar's classes."""
    title = f"{counted(sum(counts.values()), 'allele')} by class"
    return _draw_bars(counts, title=title, colours=[LABEL_COLOURS[label] for label in counts])


def draw_placements(counts: Mapping[str, int], *, source: str) -> dg.MetadataValue:
    """Draw the number of windows of a corpus source by kind of placement on the reference."""
    return _draw_bars(counts, title=f"{counted(sum(counts.values()), 'window')} of {source} by placement")


def draw_shares(declared: Mapping[str, float], served: Mapping[str, float], *, what: str) -> dg.MetadataValue:
    """Draw the declared and served shares of the training tuples, 0 to 1; ``what`` says what they are shares of."""
    names = list({**declared, **served})
    off = max((abs(served.get(name, 0.0) - declared.get(name, 0.0)) for name in names), default=0.0)
    title = f"{what} of the training tuples; at most {100 * off:.1f} percentage points off"
    figure, axes = _canvas(title, height_in=1.25 + 0.45 * len(names))
    at = np.arange(len(names))
    got, aim = ([shares.get(name, 0.0) for name in names] for shares in (served, declared))
    axes.barh(at, got, height=0.55, color=BLUE, label="served", **_EDGE)
    for y in range(len(names)):
        axes.vlines(aim[y], y - 0.4, y + 0.4, color=VERMILION, linewidth=3, label="" if y else "declared")
        _write_after(axes, max(got[y], aim[y]), y, f"{_percent(got[y], digits=1)} (declared {_percent(aim[y])})")
    axes.set(xlabel="share of tuples", xlim=(0, max([*got, *aim], default=1.0) * 1.45))
    axes.set_xticks([tick for tick in axes.get_xticks() if 0 <= tick <= 1])
    _name_rows(axes, names)
    figure.legend(loc=BELOW, ncols=2, frameon=False, fontsize=_SMALL_PT)
    alt_text = ", ".join(
        f"{name} {_percent(share, digits=1)} of {_percent(wanted)}"
        for name, share, wanted in zip(names, got, aim, strict=True)
    )
    return embed_figure(figure, f"{what} of the training tuples: {alt_text}")


def draw_composition(
    panels: Mapping[str, Mapping[str, Mapping[str, int]]], *, title: str, parts: Mapping[str, str]
) -> dg.MetadataValue:
    """Draw panels of stacked horizontal bars next to each other.

    Parameters
    ----------
    panels
        Counts by panel, row and part; every panel has the same rows, the first on top.
    parts
        Colours by part, in the order of the stack.
    """
    rows = list(next(iter(panels.values())))
    figure = new_figure(1.2 + 0.36 * len(rows), title)
    every = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (noun, counts) in zip(every, panels.items(), strict=True):
        _style_axes(axes)
        _stack(axes, counts, parts)
        axes.set_xlabel(noun)
        axes.locator_params(axis="x", nbins=3)
    _name_rows(every[0], rows)
    marks = [Patch(color=colour, label=part) for part, colour in parts.items()]
    figure.legend(handles=marks, loc=BELOW, ncols=len(parts), frameon=False, fontsize=_SMALL_PT)
    alt_text = "; ".join(f"{noun}: {_in_words(counts)}" for noun, counts in panels.items())
    return embed_figure(figure, f"{title}. {alt_text}")


def _draw_bars(counts: Mapping[str, int], *, title: str, colours: Sequence[str] | str = BLUE) -> dg.MetadataValue:
    """Draw one horizontal bar per name, labelled with count and share."""
    figure, axes = _canvas(title, height_in=0.6 + 0.3 * len(counts))
    total = sum(counts.values())
    axes.barh(np.arange(len(counts)), list(counts.values()), color=colours, **_EDGE)
    for y, n in enumerate(counts.values()):
        _write_after(axes, n, y, f"{n:,} ({_percent(n / total, digits=1)})" if total else "0")
    axes.set_xlim(0, max([*counts.values(), 1]) * 1.25)
    axes.xaxis.set_visible(False)
    axes.spines["bottom"].set_visible(False)
    _name_rows(axes, list(counts))
    return embed_figure(figure, f"{title}: " + ", ".join(f"{name} {n:,}" for name, n in counts.items()))


def _stack(axes: Axes, rows: Mapping[str, Mapping[str, int]], parts: Mapping[str, str]) -> None:
    """Stack the parts of each row, and write their counts to the right of the bar."""
    for y, by_part in enumerate(rows.values()):
        present = [(part, by_part[part]) for part in parts if by_part.get(part)]
        left = 0
        for part, n in present:
            axes.barh(y, n, left=left, color=parts[part], height=0.6, **_EDGE)
            left += n
        _write_after(axes, left, y, " + ".join(f"{n:,}" for _, n in present) or "0")
    most = max((sum(by_part.values()) for by_part in rows.values()), default=0)
    axes.set_xlim(0, max(most, 1) * 1.55)


def ink_on(colour: str) -> str:
    """Return ``"black"`` or ``"white"``, whichever has more contrast to a colour (WCAG 2.2, relative luminance)."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    luminance = float(np.dot(linear, (0.2126, 0.7152, 0.0722)))
    return "black" if (luminance + 0.05) / 0.05 > 1.05 / (luminance + 0.05) else "white"


def _write_after(axes: Axes, x: float, y: int, text: str) -> None:
    """Write text to the right of the end of a bar."""
    axes.annotate(text, (x, y), xytext=(4, 0), textcoords="offset points", va="center", fontsize=_SMALL_PT)


def _in_words(rows: Mapping[str, Mapping[str, int]]) -> str:
    """Return the counts of rows and parts as text, for the alternative text of a picture."""
    return ", ".join(
        f"{name} {' + '.join(f'{n:,} {part}' for part, n in by_part.items() if n) or 'none'}"
        for name, by_part in rows.items()
    )


def _name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Label the rows of horizontal bars, the first on top."""
    axes.set_yticks(np.arange(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)


def new_figure(height_in: float, title: str | None = None) -> Figure:
    """Return an empty figure, as wide as the dialog, with or without a title."""
    figure = Figure(figsize=(_WIDTH_IN, height_in), layout="constrained")
    if title is not None:
        # Aligned with the left edge of the picture, so that long titles fit.
        figure.suptitle(title, fontsize=_TITLE_PT, x=0.01, ha="left")
    return figure


def _canvas(title: str, *, height_in: float = 2.7) -> tuple[Figure, Axes]:
    figure = new_figure(height_in, title)
    axes = figure.add_subplot()
    _style_axes(axes)
    return figure, axes


def _style_axes(axes: Axes) -> None:
    """Remove the upper and right frame lines, and set the text sizes."""
    bare_frame(axes)
    axes.xaxis.label.set_fontsize(_TEXT_PT)
    axes.yaxis.label.set_fontsize(_TEXT_PT)


def bare_frame(axes: Axes, size_pt: float = _SMALL_PT) -> None:
    """Remove the upper and right frame lines, and set the size of the numbers at the others."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=size_pt)


def _percent(share: float, *, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f} %"


def _embed_empty(figure: Figure, axes: Axes, alt_text: str) -> dg.MetadataValue:
    """Return a picture that contains only the text ``alt_text``, for a materialisation without data."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, alt_text, ha="center", va="center", transform=axes.transAxes, fontsize=_TEXT_PT)
    return embed_figure(figure, alt_text)


def embed_figure(figure: Figure, alt: str, *, decimals: int | None = None) -> dg.MetadataValue:
    """Return a figure as Markdown with an embedded SVG; ``decimals`` of its coordinates (default: six)."""
    buffer = io.BytesIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "genolewm", "font.sans-serif": _FONTS}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    alt_text, svg = alt.replace("[", "(").replace("]", ")"), buffer.getvalue()
    if decimals is not None:
        # Not of figures that the picture states.
        svg = re.sub(rb"(\d+\.\d{%d})\d+(?![^<]*</text>)" % decimals, rb"\1", svg)
    return dg.MetadataValue.md(f"![{alt_text}](data:image/svg+xml;base64,{base64.b64encode(svg).decode()})")
