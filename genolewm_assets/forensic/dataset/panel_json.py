"""A panel as JSON values, as the cache stores it once per ladder."""

from __future__ import annotations

from typing import Any, cast

from genolewm_assets.forensic.panels import Bin, Locus, Panel
from genolewm_assets.store.files import JsonValue


def panel_as_json(panel: Panel) -> JsonValue:
    """Return a panel as JSON values; :func:`panel_from_json` reads them."""
    return {"name": panel.name, "loci": [_locus_as_json(locus) for locus in panel.loci]}


def _locus_as_json(locus: Locus) -> JsonValue:
    return {
        "name": locus.name,
        "channel": locus.channel,
        "start_bp": locus.start_bp,
        "end_bp": locus.end_bp,
        "repeat_bp": locus.repeat_bp,
        "control": list(locus.control),
        "bins": [[b.allele, b.size_bp, b.left_bp, b.right_bp, b.in_ladder] for b in locus.bins],
    }


def panel_from_json(value: JsonValue) -> Panel:
    """Return the panel that :func:`panel_as_json` wrote."""
    document = cast("dict[str, Any]", value)
    loci = []
    for each in document["loci"]:
        bins, control = tuple(Bin(*cells) for cells in each["bins"]), tuple(each["control"])
        facts = {name: each[name] for name in ("name", "channel", "start_bp", "end_bp", "repeat_bp")}
        loci.append(Locus(**facts, bins=bins, control=control))
    return Panel(document["name"], tuple(loci))
