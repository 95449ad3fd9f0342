"""Panel files, told apart by what is in them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from genolewm_assets.errors import PanelError
from genolewm_assets.forensic.panels.genemapper import is_bin_text, is_panel_text, parse_genemapper
from genolewm_assets.forensic.panels.panel import Panel
from genolewm_assets.forensic.panels.xml_files import parse_xml_panel
from genolewm_assets.store.files import decode_text, open_plain

_MAX_BYTES = 16 << 20


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
        panel = parse_xml_panel(texts[0], where, panel_name)
    else:
        panels, bins = [each for each in texts if is_panel_text(each)], [each for each in texts if is_bin_text(each)]
        if len(texts) != 2 or len(panels) != 1 or len(bins) != 1:
            raise PanelError(
                where,
                "are no panel files",
                expected="a panel file and a bin file of GeneMapper, or one XML file of OSIRIS or GeneMarker",
                got=f"{len(texts)} files: {len(panels)} panel files, {len(bins)} bin files",
            )
        panel = parse_genemapper(panels[0], bins[0], where, panel_name)
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
