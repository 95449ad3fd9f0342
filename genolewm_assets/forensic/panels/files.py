"""Panel files, told apart by what is in them.

GeneMapper and GeneMapper ID-X: tab-separated text. A line of a panel file is: locus, colour, first and last size,
alleles of the control, repeat length, stutter, alleles of the ladder. In a bin file a line ``Marker Name`` begins a
locus, and its lines are: allele, size, left and right half-width, and ``virtual`` for alleles that the ladder lacks.

XML: the ladder information of OSIRIS, and the panels of GeneMarker. OSIRIS names ladder alleles by nominal size, with
colours in an order of its own; bins of half a base pair are made.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from genolewm_assets.errors import PanelError
from genolewm_assets.forensic.panels.panel import (
    CHANNELS,
    Bin,
    Locus,
    Panel,
    check_words,
    is_amelogenin,
    make_locus,
    number,
    whole,
)
from genolewm_assets.store.files import decode_text, open_plain

_MAX_BYTES = 16 << 20
_HEADINGS = {"version", "kit type:", "chemistry kit", "panel"}
_HALF_WIDTH_BP = 0.5
_DEFAULT_REPEAT_BP = 4


def read_panel(*paths: str | Path, panel_name: str | None = None) -> Panel:
    """Read the panel of a kit.

    Parameters
    ----------
    paths
        The panel file and the bin file of GeneMapper, in any order; or one XML file of OSIRIS or GeneMarker.
    panel_name
        The panel, if the files have several; None: the only one.

    Raises
    ------
    PanelError
        If the files are none of these, are malformed, larger than 16 MiB or no text, or a locus appears twice.
    MissingResourceError, CorruptResourceError, ResourceError
        If a file is missing or cannot be read.
    """
    where = " and ".join(map(str, paths)) or "panel files"
    texts = [_read(Path(path)) for path in paths]
    if len(texts) == 1 and texts[0].lstrip().startswith("<"):
        panel = _parse_xml(texts[0], where, panel_name)
    else:
        heads = [(text, text[:4_000].lower()) for text in texts]
        bins = [text for text, head in heads if "binset name" in head or "marker name\t" in head]
        panels = [
            text
            for text, head in heads
            if "chemistry kit" in head and "\npanel\t" in head and "marker name" not in head
        ]
        if len(texts) != 2 or len(panels) != 1 or len(bins) != 1:
            raise PanelError(
                where,
                "are no panel files",
                expected="a panel file and a bin file of GeneMapper, or one XML file of OSIRIS or GeneMarker",
                got=f"{len(texts)} files: {len(panels)} panel files, {len(bins)} bin files",
            )
        panel = _parse_genemapper(panels[0], bins[0], where, panel_name)
    counts = Counter(locus.name for locus in panel.loci)
    if twice := sorted(name for name, count in counts.items() if count > 1):
        raise PanelError(where, "loci appear twice", got=", ".join(twice[:10]))
    return panel


def _read(path: Path) -> str:
    with open_plain(path, links=True, remedy="Name the panel files of the kit") as stream:
        data = stream.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise PanelError(str(path), "is too large", expected=f"at most {_MAX_BYTES:,} bytes")
    return decode_text(data, str(path), error=PanelError)


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    channel: int
    span: tuple[float, float]
    control: tuple[str, ...]
    repeat_bp: int
    ladder: tuple[str, ...]


def _parse_genemapper(panel_text: str, bin_text: str, where: str, panel_name: str | None) -> Panel:
    """Return the panel that two files of GeneMapper define."""
    panels = _read_panels(panel_text, where)
    name = _choose([each for each, rows in panels.items() if rows], panel_name, where, "a line 'Panel' and its loci")
    bins = _read_bins(bin_text, where).get(name, {})
    loci = []
    for row in panels[name]:
        label = f"{where} locus {row.name!r}"
        if row.name not in bins:
            raise PanelError(label, "has no bins", expected="a line 'Marker Name' with it in the bin file")
        own = bins[row.name]
        ladder = set(row.ladder) or {each.allele for each in own if each.in_ladder}
        if missing := ladder - {each.allele for each in own}:
            raise PanelError(label, "ladder alleles have no bin", expected=f"{len(ladder)}", got=f"{len(missing)} less")
        merged = [replace(each, in_ladder=each.allele in ladder) for each in own]
        loci.append(
            make_locus(row.name, row.channel, row.span, row.repeat_bp, merged, control=row.control, where=where)
        )
    return Panel(name, tuple(loci))


def _choose(names: Iterable[str], name: str | None, where: str, otherwise: str) -> str:
    known = sorted(names)
    if name is None and len(known) == 1:
        return known[0]
    if name not in known:
        expected = f"one of {', '.join(map(repr, known[:10]))}" if known else otherwise
        raise PanelError(where, "panel is not defined", expected=expected, got=repr(name), remedy="Name the panel")
    return name


def _read_panels(text: str, where: str) -> dict[str, list[_Row]]:
    panels: dict[str, list[_Row]] = {}
    rows: list[_Row] | None = None
    for line_number, line in enumerate(text.splitlines(), 1):
        cells = [cell.strip() for cell in line.split("\t")]
        if cells[0].lower() == "panel" and len(cells) > 1:
            rows = panels.setdefault(cells[1], [])
        elif rows is None and len(cells) > 1:
            check_words(cells[:1], "Panel", f"{where}:{line_number}")
        elif rows is not None and cells[0] and cells[0].lower() not in _HEADINGS:
            rows.append(_panel_row(cells, f"{where}:{line_number}"))
    return panels


def _panel_row(cells: list[str], where: str) -> _Row:
    if len(cells) < 6:
        raise PanelError(where, "a locus has too few columns", expected="at least 6", got=str(len(cells)))
    colour = cells[1].lower()
    if colour not in CHANNELS:
        raise PanelError(where, "unknown colour", expected=", ".join(CHANNELS), got=repr(cells[1][:40]))
    span = number(cells[2], where, "the first size"), number(cells[3], where, "the last size")
    ladder = _alleles(cells[7]) if len(cells) > 7 else ()
    repeat_bp = whole(cells[5], where, "the repeat")
    return _Row(cells[0], CHANNELS[colour], span, _alleles(cells[4]), repeat_bp, ladder)


def _alleles(cell: str) -> tuple[str, ...]:
    names = (each.strip() for each in cell.strip('"').split(","))
    return tuple(each for each in names if each and each.lower() != "none")


def _read_bins(text: str, where: str) -> dict[str, dict[str, list[Bin]]]:
    panels: dict[str, dict[str, list[Bin]]] = {}
    loci: dict[str, list[Bin]] = {}
    bins: list[Bin] | None = None
    for line_number, line in enumerate(text.splitlines(), 1):
        cells = [cell.strip() for cell in line.split("\t")]
        head = cells[0].lower()
        if head == "panel name" and len(cells) > 1:
            loci, bins = panels.setdefault(cells[1], {}), None
        elif head == "marker name" and len(cells) > 1:
            bins = loci.setdefault(cells[1], [])
        elif bins is not None and head:
            bins.append(_bin(cells, f"{where} bins:{line_number}"))
    return panels


def _bin(cells: list[str], where: str) -> Bin:
    if len(cells) < 4:
        raise PanelError(where, "a bin has too few columns", expected="at least 4", got=str(len(cells)))
    size, left, right = (number(cell, where, "a size") for cell in cells[1:4])
    marks = {cell.lower() for cell in cells[4:]}
    check_words(marks, "virtual", where)
    return Bin(cells[0], size, left, right, "virtual" not in marks)


def _parse_xml(text: str, where: str, panel_name: str | None) -> Panel:
    """Return the panel that an XML file of OSIRIS or GeneMarker defines, whatever encoding it names."""
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
    name = _choose(kits, name, where, "<Set> in <Kits>")
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
