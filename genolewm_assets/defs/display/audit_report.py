"""The page of ``packages/audit``: a picture of power and findings, and the searches, plants and figures as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
import numpy as np

from genolewm_assets.defs.display.check_results import table_of
from genolewm_assets.defs.display.pictures import BLUE, GREEN, GREY, VERMILION, embed_figure, new_figure
from genolewm_assets.errors import counted

_TEXT_PT = 8.5
#: Share from which the text stands inside its bar.
_WIDE = 0.4
_VERDICT_COLOURS = {"clean": GREEN, "inconclusive": GREY, "leak": VERMILION, "not_applicable": "#DDDDDD"}
_VERDICT_WORDS = {"clean": "no leak", "inconclusive": "not certain", "not_applicable": "does not apply"}

Rows = Sequence[Mapping[str, Any]]


def draw_audit(searches: Rows) -> dg.MetadataValue:
    """Draw the share of planted leaks that each search found, and how many it found in the package itself."""
    planted, found = (sum(row[name] for row in searches) for name in ("planted", "found_planted"))
    leaks = sum(row["findings"] for row in searches)
    title = f"{found:,} of {planted:,} planted leaks found; {leaks:,} found in the package itself"
    figure = new_figure(0.9 + 0.3 * len(searches), title)
    axes = figure.add_subplot()
    axes.spines[["top", "right", "left"]].set_visible(False)
    at = np.arange(len(searches))
    axes.barh(at, 1.0, height=0.62, color="#EEEEEE")
    axes.barh(
        at, [row["power"] or 0.0 for row in searches], height=0.62, color=BLUE, edgecolor="#333333", linewidth=0.5
    )
    for y, row in enumerate(searches):
        power = f"{row['found_planted']:,} of {row['planted']:,}" if row["planted"] else "none planted"
        end = row["power"] or 0.0
        if end > _WIDE:
            axes.text(end - 0.01, y, power, va="center", ha="right", color="white", fontsize=_TEXT_PT)
        else:
            axes.text(end + 0.01, y, power, va="center", fontsize=_TEXT_PT)
        axes.scatter(1.06, y, s=44, color=_VERDICT_COLOURS[row["verdict"]], marker="s", clip_on=False)
        axes.text(1.1, y, _verdict(row), va="center", fontsize=_TEXT_PT, clip_on=False)
    axes.set(xlim=(0, 1.5), ylim=(len(searches) - 0.4, -0.6))
    axes.set_yticks(at, [row["kind"].replace("_", " ") for row in searches])
    axes.set_xticks([0, 0.5, 1.0], ["0 %", "50 %", "100 %"])
    axes.spines["bottom"].set_bounds(0, 1)
    axes.tick_params(labelsize=_TEXT_PT)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("planted leaks found", fontsize=_TEXT_PT, x=1 / 3)
    words = ", ".join(
        f"{row['kind'].replace('_', ' ')} {row['found_planted']:,} of {row['planted']:,} planted, {_verdict(row)}"
        for row in searches
    )
    return embed_figure(figure, f"{title}: {words}")


def _verdict(row: Mapping[str, Any]) -> str:
    if row["findings"]:
        return counted(row["findings"], "leak")
    return _VERDICT_WORDS[row["verdict"]]


def list_searches(searches: Rows) -> dg.MetadataValue:
    """Return one row per kind of leak: verdict and what was found, how much was searched, planted leaks found."""
    return table_of(
        [
            {
                "kind": row["kind"].replace("_", " "),
                "verdict": _outcome(row),
                "searched": row["searched"],
                "planted": f"{row['found_planted']:,} of {row['planted']:,} found" if row["planted"] else "none",
            }
            for row in searches
        ]
    )


def _outcome(row: Mapping[str, Any]) -> str:
    verdict = str(row["verdict"]).replace("_", " ")
    return verdict if verdict == "clean" else f"{verdict}: {row['result']}"


def list_methods(searches: Rows) -> dg.MetadataValue:
    """Return how each kind of leak was looked for, as Markdown: in the table, the page would be too wide."""
    return dg.MetadataValue.md("\n".join(f"- **{row['kind'].replace('_', ' ')}**: {row['method']}" for row in searches))


def list_plants(report: Mapping[str, Any]) -> dg.MetadataValue:
    """Return one row per kind of planted leak: how many were planted and found, and the least share to be found."""
    return table_of(
        [
            {
                "plant": power["plant"],
                "searched_as": search["kind"].replace("_", " "),
                "planted": power["planted"],
                "found": power["found"],
                "at_least": f"{power['least_share']:.0%}",
            }
            for search in report["results"]
            for power in search["power"]
        ]
    )


def list_measured(report: Mapping[str, Any]) -> dg.MetadataValue:
    """Return what the package shares with its holdouts by design, which decides nothing."""
    return table_of([{"what": what, "number": number} for what, number in report["measured"].items()])
