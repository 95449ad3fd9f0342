"""Panel and bin files of GeneMapper and GeneMapper ID-X: tab-separated text.

A line of a panel file is: locus, colour, first and last size, alleles of the control, repeat length, stutter, alleles
of the ladder. In a bin file a line ``Marker Name`` begins a locus, and its lines are: allele, size, left and right
half-width, and the word ``virtual`` for alleles that the ladder lacks.
"""

from __future__ import annotations

from dataclasses import dataclass

from genolewm_assets.errors import PanelError
from genolewm_assets.forensic.panels.panel import CHANNELS, Bin, Panel, check_words, make_locus, number, whole

_HEADINGS = {"version", "kit type:", "chemistry kit", "panel"}


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    channel: int
    span: tuple[float, float]
    control: tuple[str, ...]
    repeat_bp: int
    ladder: tuple[str, ...]


def is_panel_text(text: str) -> bool:
    """Tell whether a text is a panel file of GeneMapper, and not its bin file."""
    head = text[:4_000].lower()
    return "chemistry kit" in head and "\npanel\t" in head and "marker name" not in head


def is_bin_text(text: str) -> bool:
    """Tell whether a text is a bin file of GeneMapper."""
    head = text[:4_000].lower()
    return "binset name" in head or "marker name\t" in head


def parse_genemapper(panel_text: str, bin_text: str, where: str, panel_name: str | None = None) -> Panel:
    """Return the panel that two files define; ``panel_name`` chooses one of several.

    PanelError is raised if a line is malformed, the choice is not one panel, or a ladder allele has no bin.
    """
    panels = _read_panels(panel_text, where)
    name = _choose(panels, panel_name, where)
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
        merged = [Bin(b.allele, b.size_bp, b.left_bp, b.right_bp, b.allele in ladder) for b in own]
        loci.append(
            make_locus(row.name, row.channel, row.span, row.repeat_bp, merged, control=row.control, where=where)
        )
    return Panel(name, tuple(loci))


def _choose(panels: dict[str, list[_Row]], name: str | None, where: str) -> str:
    names = sorted(each for each, rows in panels.items() if rows)
    if name is None and len(names) == 1:
        return names[0]
    if name not in names:
        expected = f"one of {', '.join(map(repr, names[:10]))}" if names else "a line 'Panel' and its loci"
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
