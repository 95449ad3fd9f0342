"""Panel files in XML: the ladder information of OSIRIS, and the panels of GeneMarker.

OSIRIS names ladder alleles by nominal size, with colours in an order of its own; bins of half a base pair are made.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET

from genolewm_assets.errors import PanelError
from genolewm_assets.forensic.panels.panel import (
    Bin,
    Locus,
    Panel,
    check_words,
    is_amelogenin,
    make_locus,
    number,
    whole,
)

_HALF_WIDTH_BP = 0.5
_DEFAULT_REPEAT_BP = 4


def parse_xml_panel(text: str, where: str, panel_name: str | None = None) -> Panel:
    """Return the panel that an XML file defines, whatever encoding it names.

    ``panel_name`` chooses a kit of an OSIRIS file. PanelError is raised if it is no XML, declares entities, or is
    neither an OSIRIS nor a GeneMarker file.
    """
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise PanelError(where, "declares a document type", expected="none, as OSIRIS and GeneMarker write")
    try:
        root = ET.fromstring(text)  # noqa: S314 - without a document type there are no entities to expand
    except (ET.ParseError, LookupError, ValueError) as err:
        raise PanelError(where, f"is not XML ({err})") from err
    if root.tag == "KitData":
        return _osiris(root, where, panel_name)
    if root.tag == "Panel":
        loci = tuple(_genemarker_locus(each, where) for each in root.iter("Locus"))
        return Panel(_text(root, "PanelName", where), _at_least_one(loci, where))
    raise PanelError(where, "is no panel", expected="<KitData> or <Panel>", got=f"<{root.tag[:40]}>")


def _osiris(root: ET.Element, where: str, name: str | None) -> Panel:
    kits = {_text(each, "Name", where): each for each in root.iterfind("Kits/Set")}
    if name is None and len(kits) == 1:
        name = next(iter(kits))
    if name is None or name not in kits:
        expected = f"one of {', '.join(map(repr, sorted(kits)[:10]))}"
        raise PanelError(where, "kit is not defined", expected=expected, got=repr(name), remedy="Name the kit")
    channels = {
        _text(each, "KitChannelNumber", where): whole(_text(each, "fsaChannelNumber", where), where, "a channel")
        for each in kits[name].iterfind("FsaChannelMap/Channel")
    }
    loci = [_osiris_locus(each, channels, where) for each in kits[name].iterfind("Locus")]
    return Panel(name, _at_least_one(tuple(loci), where))


def _osiris_locus(element: ET.Element, channels: dict[str, int], where: str) -> Locus:
    name = _text(element, "Name", where)
    label = f"{where} locus {name!r}"
    kit_channel = _text(element, "Channel", label)
    if kit_channel not in channels:
        raise PanelError(label, "its channel is not in the map", expected=", ".join(channels), got=kit_channel)
    check_words((each.tag for each in element), "CoreRepeatNumber", label)
    repeat_text = (element.findtext("CoreRepeatNumber") or "").strip()
    repeat_bp = whole(repeat_text, label, "the repeat") if repeat_text else _DEFAULT_REPEAT_BP
    bins = []
    for each in element.iterfind("LadderAlleles/Allele"):
        size = number(_text(each, "BP", label), label, "a size")
        bins.append(Bin(_text(each, "Name", label), size, _HALF_WIDTH_BP, _HALF_WIDTH_BP, in_ladder=True))
    start = number(_text(element, "MinBP", label), label, "the first size")
    end = number(_text(element, "MaxBP", label), label, "the last size")
    margin = 1.5 if is_amelogenin(name) else repeat_bp / 2
    sizes = [each.size_bp for each in bins] or [start]
    span = min(start, *sizes) - margin, max(end, *sizes) + margin
    return make_locus(name, channels[kit_channel], span, repeat_bp, bins, where=where)


def _genemarker_locus(element: ET.Element, where: str) -> Locus:
    name = _text(element, "MarkerTitle", where)
    label = f"{where} locus {name!r}"
    for each in element.iterfind("Allele"):
        check_words(each.keys(), "Control", label)
    bins = [
        Bin(
            each.get("Label", ""),
            number(each.get("Size", ""), label, "a size"),
            number(each.get("Left_Binning", ""), label, "a half-width"),
            number(each.get("Right_Binning", ""), label, "a half-width"),
            each.get("Control") == "1",
        )
        for each in element.iterfind("Allele")
    ]
    span = tuple(number(_text(element, tag, label), label, "a size") for tag in ("LowerBoundary", "UpperBoundary"))
    repeat_bp = whole(_text(element, "n_NucleotideRepeats", label), label, "the repeat")
    channel = whole(_text(element, "DyeIndex", label), label, "the channel")
    return make_locus(name, channel, (span[0], span[1]), repeat_bp, bins, where=where)


def _text(element: ET.Element, tag: str, where: str) -> str:
    text = (element.findtext(tag) or "").strip()
    if not text:
        raise PanelError(where, f"<{element.tag}> has no <{tag}>")
    return text


def _at_least_one(loci: tuple[Locus, ...], where: str) -> tuple[Locus, ...]:
    if not loci:
        raise PanelError(where, "has no loci", expected="at least one")
    return loci
